// Package window says when something may begin: in windows of the week, each in its time
// zone, and not in freezes. It is pure: what time it is, is a parameter.
package window

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // time zones are the same on every machine, and on those that have none
)

// Calendar is when something may begin. Without windows that is always, but for freezes.
type Calendar struct {
	Windows []Window `json:"windows,omitempty"`
	Freezes []Freeze `json:"freezes,omitempty"`
}

// Window is a part of some days of the week. One whose end is not after its beginning ends
// on the day after.
type Window struct {
	Days []Day  `json:"days,omitempty"` // on which it begins; none are all
	From Clock  `json:"from"`
	To   Clock  `json:"to"`
	Zone string `json:"zone"`
}

// Freeze is a time in which nothing begins, whatever the windows say.
type Freeze struct {
	From   Moment `json:"from"`
	To     Moment `json:"to"` // the first moment after it
	Zone   string `json:"zone"`
	Reason string `json:"reason,omitempty"`
}

// Day is a day of the week as people write it: mon.
type Day string

var days = []Day{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// Days are the days of the week.
func Days() []string {
	names := make([]string, len(days))
	for i, d := range days {
		names[i] = string(d)
	}
	return names
}

// Clock is a time of day: 09:30. 24:00 is the end of the day.
type Clock string

// clockForm is how a time of day is written.
const clockForm = "15:04"

// Minutes is how many minutes after midnight it is.
func (c Clock) Minutes() (int, error) {
	const day = 24 * 60
	if c == "24:00" {
		return day, nil
	}
	t, err := time.Parse(clockForm, string(c))
	if err != nil || len(c) != len(clockForm) {
		return 0, fmt.Errorf("%q is no time of day such as 09:30", string(c))
	}
	return t.Hour()*60 + t.Minute(), nil
}

// Moment is a date, or a date with a time of day: 2026-12-20, 2026-12-20 18:00. Which moment
// that is depends on the time zone.
type Moment string

// In is the moment in a time zone.
func (m Moment) In(zone *time.Location) (time.Time, error) {
	for _, form := range []string{time.DateOnly, time.DateOnly + " " + clockForm} {
		if t, err := time.ParseInLocation(form, string(m), zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no date such as 2026-12-20 or 2026-12-20 18:00", string(m))
}

// Zone is the time zone of a name such as Europe/Berlin. That of whatever machine decides
// is none, for machines differ.
func Zone(name string) (*time.Location, error) {
	if name == "" || strings.EqualFold(name, "local") {
		return nil, fmt.Errorf("%q is no time zone such as Europe/Berlin or UTC", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q is no time zone such as Europe/Berlin or UTC", name)
	}
	return zone, nil
}
