package build

import (
	"time"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
)

// Command is what a person, or a pipeline, wants.
type Command interface {
	propose(s *State, now time.Time) ([]deploylog.Event, error)
}

// Submit makes a group of jobs, which is queued. Its id is in the events' Deployment.
type Submit struct {
	record.Triggered
	Places      []record.Place
	Jobs        []record.JobSpec // each after all that it uses or waits for
	Cycles      [][]string
	Unbuildable []record.Unbuildable
}

// Cancel ends a group: nothing of it is dispatched any more, and what runs is stopped.
type Cancel struct {
	Group  string // id
	By     string
	Reason string
}

// Retry queues a group again that has failed or was canceled. What it has built stays.
type Retry struct {
	Group      string // id
	FailedOnly bool   // only what failed, and what failed because of that; not what was canceled, unless that needs it
	By         string
	Step       string // of the pipeline that wants it; "" of everybody else
}

// Propose returns the events that carry out a command, to be appended together. A
// *refusal.Error says why a command makes no sense now, and what to do instead. Commands that
// are proposed and appended at the same time by several processes need one lock around both.
func (s *State) Propose(c Command, now time.Time) ([]deploylog.Event, error) {
	defer s.recorded()()
	return c.propose(s, now)
}
