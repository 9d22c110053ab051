package deployment

import (
	"time"
)

// Tries are the tries of the work of a step that have failed in the present attempt of
// its deployment, as the log tells. They are counted over all schedulers.
type Tries struct {
	Failed int       // how many; 0 is none
	Seq    int64     // Event of the last
	At     time.Time // of that event
	Cause  string    // of the last
}

// Next is when the work may be tried again.
func (t Tries) Next() time.Time { return t.At.Add(Pause(t.Failed)) }

// Rest reports whether it is too early for another try. Where the clock was set back
// it is not.
func (t Tries) Rest(now time.Time) bool {
	left := t.Next().Sub(now)
	return t.Failed > 0 && left > 0 && left <= Pause(t.Failed)
}

// Pause is how long work rests that failed so many times: a second at first, then
// double, up to a minute. So an hour of failures is some seventy tries of a step.
func Pause(failures int) time.Duration {
	const doublings = 6
	return min(time.Second<<min(max(failures-1, 0), doublings), time.Minute)
}
