package pipeline

import (
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Tries are the tries of the work of a step that have failed in the present attempt of
// its deployment, as the log tells. They are counted over all schedulers.
type Tries struct {
	Failed int       // how many; 0 is none
	Seq    int64     // event of the last
	At     time.Time // of that event
	Cause  string    // of the last
}

// Next is when the work may be tried again.
func (t Tries) Next() time.Time { return t.At.Add(Pause(t.Failed)) }

// rest reports whether it is too early for another try. Where the clock was set back
// it is not.
func (t Tries) rest(now time.Time) bool {
	left := t.Next().Sub(now)
	return t.Failed > 0 && left > 0 && left <= Pause(t.Failed)
}

// Pause is how long work rests that failed so many times: a second at first, then
// double, up to a minute. So an hour of failures is some seventy tries of a step.
func Pause(failures int) time.Duration {
	const doublings = 6
	return min(time.Second<<min(max(failures-1, 0), doublings), time.Minute)
}

// TryFailed is the event that records that a try of the step's work failed, which is to
// be done again. It has an ID of its own, for a step fails as often as it is tried. run is
// one that may still be at work; "" is none.
func (s Step) TryFailed(id, by, run, cause string) deploylog.Event {
	outcome := tryFailed
	if run != "" {
		outcome = workLost
	}
	return ended(id, by, s.data(s.Tries.Failed+1), outcome, run, cause)
}

// Lost is the event that records that work that failed for good may still be at work, in
// a run.
func (s Step) Lost(id, by, run, cause string) deploylog.Event {
	return ended(id, by, s.data(0), workLost, run, cause)
}

// Settled is the event that records that nothing of work is running any more that only waited,
// and was given up. It has an ID of its own.
func (s Step) Settled(id, by string) deploylog.Event {
	return ended(id, by, s.data(0), workSettled, "", "")
}

// The outcomes of work, in the data of an EventStepsEnded.
const (
	tryFailed   = "failed"  // and is to be tried again, if it is a try
	workLost    = "lost"    // a run of it may still be at work
	workSettled = "settled" // it was left by somebody, and nothing of it is running
)

// stepWork is the work of a step, in the data of an EventStepsBegun or EventStepsEnded.
type stepWork struct {
	Deployment string           `json:"deployment"`
	Revision   string           `json:"revision"`
	Target     deploylog.Target `json:"target"`
	Event      string           `json:"event"`
	Attempt    int              `json:"attempt"`
	Manifest   string           `json:"manifest,omitempty"`
	Try        int              `json:"try,omitempty"` // of the attempt, from 1
	Outcome    string           `json:"outcome,omitempty"`
	Run        string           `json:"run,omitempty"`
	Error      string           `json:"error,omitempty"`
}

func (s Step) data(try int) stepWork {
	return stepWork{Deployment: s.Deployment, Revision: s.Revision, Target: s.Target, Event: s.Event, Attempt: s.Attempt, Manifest: s.Manifest, Try: try}
}

// ended is the event that records how work ended.
func ended(id, by string, w stepWork, outcome, run, cause string) deploylog.Event {
	w.Outcome, w.Run, w.Error = outcome, run, deploylog.Cause(cause)
	name, _ := NameOf(w.Target)
	return deploylog.Event{Deployment: id, Target: Target(name), Name: EventStepsEnded, Attempt: 1, Data: payload{By: by, Steps: []stepWork{w}}.data()}
}

// countTry folds in that a try failed.
func (s *State) countTry(w stepWork, e deploylog.Event) {
	d := s.byID[w.Deployment]
	if d == nil || w.Attempt != d.attempt {
		return
	}
	k := entryKey{w.Target, w.Event}
	if d.tries == nil {
		d.tries = map[entryKey]Tries{}
	}
	d.tries[k] = Tries{Failed: d.tries[k].Failed + 1, Seq: e.Seq, At: e.CreatedAt, Cause: w.Error}
}

// forgetTries forgets the tries of a step that was done, or failed for good.
func (d *deployment) forgetTries(e deploylog.Event) {
	if len(d.tries) > 0 {
		delete(d.tries, entryKey{e.Target, strings.TrimSuffix(e.Name, failedAfter)})
	}
}

// tried is the reason why a step whose work failed is to be tried again; ok is false where
// none has failed.
func (s Step) tried() (r Reason, ok bool) {
	t := s.Tries
	if t.Failed == 0 {
		return r, false
	}
	name, _ := NameOf(s.Target)
	return Reason{Code: AwaitsRetry, By: Target(name), ByEvent: EventStepsEnded, Seq: t.Seq, Cause: t.Cause, Try: t.Failed, Of: s.Retries + 1, Until: t.Next()}, true
}
