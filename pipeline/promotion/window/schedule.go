package window

import (
	"slices"
	"time"
)

// Schedule is a Calendar whose time zones are loaded: that costs a thousand times what it takes
// to compare two moments.
type Schedule struct {
	windows []opening
	freezes []closing
}

// opening is a window; one that cannot be read opens nothing.
type opening struct {
	days         []Day
	begins, ends int // minutes after midnight
	zone         *time.Location
}

// closing is a freeze. One that cannot be read never ends: what it says was meant to keep
// something from beginning.
type closing struct {
	Freeze
	from, to time.Time
	broken   bool
}

// Schedule loads the time zones.
func (c *Calendar) Schedule() *Schedule {
	if c == nil {
		return nil
	}
	s := &Schedule{windows: make([]opening, 0, len(c.Windows))}
	for _, w := range c.Windows {
		zone, err := Zone(w.Zone)
		o := opening{days: w.Days, zone: zone}
		if err == nil {
			o.begins, err = w.From.Minutes()
		}
		if err == nil {
			o.ends, err = w.To.Minutes()
		}
		if err != nil {
			o.zone = nil
		}
		s.windows = append(s.windows, o)
	}
	for _, f := range c.Freezes {
		from, to, err := f.span()
		s.freezes = append(s.freezes, closing{f, from, to, err != nil})
	}
	return s
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

// Frozen is the freeze in which a moment is, nil if it is in none.
func (s *Schedule) Frozen(at time.Time) *Freeze {
	if f := s.frozen(at); f != nil {
		return &f.Freeze
	}
	return nil
}

func (s *Schedule) frozen(at time.Time) *closing {
	for i := range s.freezes {
		if f := &s.freezes[i]; f.broken || !at.Before(f.from) && at.Before(f.to) {
			return f
		}
	}
	return nil
}

// Open reports whether something may begin at a moment.
func (s *Schedule) Open(at time.Time) bool {
	if s == nil {
		return true
	}
	if s.frozen(at) != nil {
		return false
	}
	return len(s.windows) == 0 || slices.ContainsFunc(s.windows, func(w opening) bool { return w.has(at) })
}

// has reports whether a moment is in the window.
func (w *opening) has(at time.Time) bool {
	const around = 1 // it may have begun the day before, and that of a day whose midnight is skipped begins before it
	for day := -around; day <= around; day++ {
		if from, to, ok := w.on(at, day); ok && !at.Before(from) && at.Before(to) {
			return true
		}
	}
	return false
}

// on is the window that begins some days after the day of a moment; ok is false where none does.
func (w *opening) on(at time.Time, after int) (from, to time.Time, ok bool) {
	if w.zone == nil {
		return from, to, false
	}
	local := at.In(w.zone)
	// The day is taken from noon: there are zones where midnight is skipped.
	weekday := time.Date(local.Year(), local.Month(), local.Day()+after, 12, 0, 0, 0, w.zone).Weekday()
	if len(w.days) > 0 && !slices.Contains(w.days, days[weekday]) {
		return from, to, false
	}
	moment := func(minutes, days int) time.Time {
		return time.Date(local.Year(), local.Month(), local.Day()+after+days, 0, minutes, 0, 0, w.zone)
	}
	from, to = moment(w.begins, 0), moment(w.ends, 0)
	if w.ends <= w.begins {
		to = moment(w.ends, 1)
	}
	return from, to, true
}

// Next is the first moment from one on at which something may begin; zero is none that is
// near: within about two years.
func (s *Schedule) Next(at time.Time) time.Time {
	if s == nil {
		return at
	}
	const tries = 1000
	for range tries {
		if f := s.frozen(at); f != nil { // no window matters before its end
			if f.broken {
				return time.Time{}
			}
			at = f.to
			continue
		}
		if s.Open(at) {
			return at
		}
		next := s.boundary(at)
		if next.IsZero() {
			return next
		}
		at = next
	}
	return time.Time{}
}

// boundary is the next moment after one at which a window begins, or a freeze ends.
func (s *Schedule) boundary(at time.Time) (next time.Time) {
	consider := func(t time.Time) {
		if t.After(at) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, f := range s.freezes {
		if !f.broken {
			consider(f.to)
		}
	}
	const week = 7
	for i := range s.windows {
		for day := range week + 2 {
			if from, _, ok := s.windows[i].on(at, day); ok {
				consider(from)
			}
		}
	}
	return next
}
