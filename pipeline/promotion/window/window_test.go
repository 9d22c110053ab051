package window_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/pipeline/promotion/window"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	moment, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return moment
}

func TestWindowsAreOfTheWeekAndOfTheirTimeZone(t *testing.T) {
	office := window.Window{Days: []window.Day{"mon", "tue", "wed", "thu"}, From: "09:00", To: "16:00", Zone: "Europe/Berlin"}
	night := window.Window{Days: []window.Day{"fri"}, From: "22:00", To: "04:00", Zone: "UTC"}
	for name, c := range map[string]struct {
		calendar window.Calendar
		at, next string // next is when it is open, the first time
	}{
		"without windows it is always open":          {window.Calendar{}, "2026-11-22T12:00:00Z", "2026-11-22T12:00:00Z"},
		"on a Sunday the office is closed":           {window.Calendar{Windows: []window.Window{office}}, "2026-11-22T12:00:00Z", "2026-11-23T08:00:00Z"},
		"nine in Berlin is eight in UTC":             {window.Calendar{Windows: []window.Window{office}}, "2026-11-23T08:00:00Z", "2026-11-23T08:00:00Z"},
		"and seven in summer":                        {window.Calendar{Windows: []window.Window{office}}, "2026-07-06T06:00:00Z", "2026-07-06T07:00:00Z"},
		"the end is not in the window":               {window.Calendar{Windows: []window.Window{office}}, "2026-11-26T15:00:00Z", "2026-11-30T08:00:00Z"},
		"a window goes over midnight":                {window.Calendar{Windows: []window.Window{night}}, "2026-11-28T03:59:00Z", "2026-11-28T03:59:00Z"},
		"that of a Saturday is not there":            {window.Calendar{Windows: []window.Window{night}}, "2026-11-28T22:30:00Z", "2026-12-04T22:00:00Z"},
		"the first of two windows that opens counts": {window.Calendar{Windows: []window.Window{office, night}}, "2026-11-27T12:00:00Z", "2026-11-27T22:00:00Z"},
		"a freeze closes what is open":               {window.Calendar{Freezes: []window.Freeze{{From: "2026-12-20", To: "2027-01-07", Zone: "Europe/Berlin"}}}, "2026-12-24T18:00:00Z", "2027-01-06T23:00:00Z"},
		"after a freeze the windows count": {
			window.Calendar{Windows: []window.Window{office}, Freezes: []window.Freeze{{From: "2026-12-20", To: "2027-01-07 18:00", Zone: "Europe/Berlin"}}},
			"2026-12-24T18:00:00Z", "2027-01-11T08:00:00Z",
		},
		"a time that the clocks skip is after it": {
			window.Calendar{Windows: []window.Window{{Days: []window.Day{"sun"}, From: "02:30", To: "05:00", Zone: "Europe/Berlin"}}},
			"2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z",
		},
	} {
		t.Run(name, func(t *testing.T) {
			moment, want := at(t, c.at), at(t, c.next)
			schedule := c.calendar.Schedule()
			assert.WithinDuration(t, want, schedule.Next(moment), 0)
			assert.Equal(t, moment.Equal(want), schedule.Open(moment))
			assert.True(t, schedule.Open(want), "it is not open when it opens")
		})
	}
}

func TestWhatCannotBeReadKeepsClosed(t *testing.T) {
	now := at(t, "2026-11-23T10:00:00Z")
	for name, c := range map[string]window.Calendar{
		"a window in no time zone": {Windows: []window.Window{{From: "00:00", To: "24:00", Zone: "Nowhere/City"}}},
		"a window without times":   {Windows: []window.Window{{Zone: "UTC"}}},
		"a freeze without times":   {Freezes: []window.Freeze{{Zone: "UTC"}}},
		"the zone of the machine":  {Windows: []window.Window{{From: "00:00", To: "24:00", Zone: "Local"}}},
	} {
		t.Run(name, func(t *testing.T) {
			schedule := c.Schedule()
			assert.False(t, schedule.Open(now), "it is open")
			assert.True(t, schedule.Next(now).IsZero())
		})
	}
}

func TestAWholeDayIsOpenToItsEnd(t *testing.T) {
	c := (&window.Calendar{Windows: []window.Window{{From: "00:00", To: "24:00", Zone: "America/Sao_Paulo"}}}).Schedule()
	for hour := range 48 {
		assert.True(t, c.Open(at(t, "2018-11-03T00:00:00Z").Add(time.Duration(hour)*time.Hour)), "it is closed")
	}
}

func TestManyWindowsOpenAfterALongFreeze(t *testing.T) {
	c := window.Calendar{Freezes: []window.Freeze{{From: "2026-12-20", To: "2027-01-07", Zone: "UTC"}}}
	for minute := range 100 {
		from := window.Clock(time.Date(2026, 1, 1, 8, minute, 0, 0, time.UTC).Format("15:04"))
		c.Windows = append(c.Windows, window.Window{From: from, To: "16:00", Zone: "UTC"})
	}
	want := time.Date(2027, 1, 7, 8, 0, 0, 0, time.UTC)
	assert.WithinDuration(t, want, c.Schedule().Next(time.Date(2026, 12, 20, 10, 0, 0, 0, time.UTC)), 0)
}
