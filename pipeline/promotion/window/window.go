// Package window says when something may begin: in windows of the week, each in its time
// zone, and not in freezes. It is pure: what time it is, is a parameter.
package window

import (
	"fmt"
	"slices"
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

// Frozen is the freeze in which a moment is, nil if it is in none. One that cannot be read
// never ends: what it says was meant to keep something from beginning.
func (c *Calendar) Frozen(at time.Time) *Freeze {
	for i := range c.Freezes {
		from, to, err := c.Freezes[i].span()
		if err != nil || !at.Before(from) && at.Before(to) {
			return &c.Freezes[i]
		}
	}
	return nil
}

func (f *Freeze) span() (from, to time.Time, err error) {
	zone, err := Zone(f.Zone)
	if err != nil {
		return from, to, err
	}
	if from, err = f.From.In(zone); err != nil {
		return from, to, err
	}
	to, err = f.To.In(zone)
	return from, to, err
}

// Open reports whether something may begin at a moment.
func (c *Calendar) Open(at time.Time) bool {
	if c == nil {
		return true
	}
	if c.Frozen(at) != nil {
		return false
	}
	return len(c.Windows) == 0 || slices.ContainsFunc(c.Windows, func(w Window) bool { return w.has(at) })
}

// has reports whether a moment is in the window.
func (w *Window) has(at time.Time) bool {
	const around = 1 // it may have begun the day before, and that of a day whose midnight is skipped begins before it
	for day := -around; day <= around; day++ {
		if from, to, ok := w.on(at, day); ok && !at.Before(from) && at.Before(to) {
			return true
		}
	}
	return false
}

// on is the window that begins some days after the day of a moment; ok is false where none does.
func (w *Window) on(at time.Time, after int) (from, to time.Time, ok bool) {
	zone, err := Zone(w.Zone)
	if err != nil {
		return from, to, false
	}
	begins, err := w.From.Minutes()
	if err != nil {
		return from, to, false
	}
	ends, err := w.To.Minutes()
	if err != nil {
		return from, to, false
	}
	local := at.In(zone)
	// The day is taken from noon: there are zones where midnight is skipped.
	weekday := time.Date(local.Year(), local.Month(), local.Day()+after, 12, 0, 0, 0, zone).Weekday()
	if len(w.Days) > 0 && !slices.Contains(w.Days, days[weekday]) {
		return from, to, false
	}
	moment := func(minutes, days int) time.Time {
		return time.Date(local.Year(), local.Month(), local.Day()+after+days, 0, minutes, 0, 0, zone)
	}
	from, to = moment(begins, 0), moment(ends, 0)
	if ends <= begins {
		to = moment(ends, 1)
	}
	return from, to, true
}

// Next is the first moment from one on at which something may begin; zero is none that is
// near: within about two years.
func (c *Calendar) Next(at time.Time) time.Time {
	if c == nil {
		return at
	}
	const tries = 1000
	for range tries {
		if f := c.Frozen(at); f != nil { // no window matters before its end
			_, to, err := f.span()
			if err != nil {
				return time.Time{}
			}
			at = to
			continue
		}
		if c.Open(at) {
			return at
		}
		next := c.boundary(at)
		if next.IsZero() {
			return next
		}
		at = next
	}
	return time.Time{}
}

// boundary is the next moment after one at which a window begins, or a freeze ends.
func (c *Calendar) boundary(at time.Time) (next time.Time) {
	consider := func(t time.Time) {
		if t.After(at) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for i := range c.Freezes {
		if _, to, err := c.Freezes[i].span(); err == nil {
			consider(to)
		}
	}
	const week = 7
	for i := range c.Windows {
		for day := range week + 2 {
			if from, _, ok := c.Windows[i].on(at, day); ok {
				consider(from)
			}
		}
	}
	return next
}
