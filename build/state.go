package build

import (
	"iter"
	"time"

	"github.com/deployster-go/deployster/build/reason"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
)

// State is all build groups of a log. It is not safe for concurrent use, not even its methods
// that only read.
type State struct {
	name string
	head int64
}

// New returns the state of a log without build groups.
func New(name string) *State { return &State{name: name} }

// Name is the one that it was made with.
func (s *State) Name() string { return s.name }

// Head is the Seq of the last event that was applied.
func (s *State) Head() int64 { return s.head }

// Apply folds an event. One that does not fit changes nothing: history is never refused.
func (s *State) Apply(e deploylog.Event) { s.head = e.Seq }

// Decide yields what may be done now: oldest groups first, within one the jobs with the
// longest remaining path. All that is yielded may begin together. Nothing may be applied to
// the state while it is iterated.
func (s *State) Decide(now time.Time, can Can) iter.Seq[Step] { return func(func(Step) bool) {} }

// Ended returns what is to be recorded of how a task ended, with all that it causes. It
// counts the tasks that it was asked about before and whose events are not applied yet: of
// two that end at once the last unlocks what needs both.
func (s *State) Ended(t Task, r Result, now time.Time) []deploylog.Event { return nil }

// Wake is when something may be done because time has passed: a lost job rests before it is
// dispatched again. Zero is never.
func (s *State) Wake() time.Time { return time.Time{} }

// Idle reports whether nothing will be done until an event comes from outside. serves reports
// whether there is a worker for a place at all, busy or not; nil is always.
func (s *State) Idle(serves func(record.Place) bool) bool { return true }

// Find is the id of a group that is named by it, or by the name of what is built: then the
// newest. The error names those that exist.
func (s *State) Find(text string) (id string, err error) { return "", ErrNoGroup }

// FindJob is the number of a job that is named by that or by its package, PACKAGE#PASS, which
// without a pass is the last.
func (s *State) FindJob(id, text string) (number int, err error) { return 0, ErrNoJob }

// Groups are all groups, the oldest first.
func (s *State) Groups() []Summary { return nil }

// Report is how far a group is.
func (s *State) Report(id string) (Report, error) { return Report{}, ErrNoGroup }

// Jobs are the jobs of a group that are in one of the states; none are all.
func (s *State) Jobs(id string, states ...transition.Job) ([]JobReport, error) {
	return nil, ErrNoGroup
}

// Job is how far a job is.
func (s *State) Job(id string, number int) (JobReport, error) { return JobReport{}, ErrNoJob }

// Explain returns, for what is at or below a target, why it does not move: of a group also
// of its jobs, of "" of all groups. It is made of the verdicts by which Decide yields steps
// or does not.
func (s *State) Explain(t deploylog.Target, now time.Time, w Workers) []reason.Reason { return nil }

// Workers says which workers serve a place, at all.
type Workers func(p record.Place) []Worker

// Worker is one that can build jobs.
type Worker struct {
	Name  string
	Slots int
}

// Forecast is when a group will have ended. slots is how many jobs are built at once at a
// place.
func (s *State) Forecast(id string, now time.Time, slots func(record.Place) int) (Forecast, error) {
	return Forecast{}, ErrNoGroup
}

// Needed are the digests of the artifacts, and the hashes of what groups carry, that must be
// kept: of groups that have not ended, and of the newest and the newest complete group of
// each name.
func (s *State) Needed() (artifacts, objects []string) { return nil, nil }
