package build

import (
	"encoding/json"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
)

const (
	// maxListed is how many jobs an event names at most, so that its data stays below the
	// limit of the log. What is beyond that is settled by another event.
	maxListed = 100_000

	// maxJobs is how many jobs a group may have.
	maxJobs = 1_000_000
)

// event is an event of the group itself.
func (g *group) event(name string, attempt int, data any) deploylog.Event {
	return newEvent(g.id, record.Group(g.id), name, attempt, data)
}

// jobEvent is an event of a job of the group.
func (g *group) jobEvent(i int32, name string, attempt int, data any) deploylog.Event {
	return newEvent(g.id, g.targets.Job(int(i)+1), name, attempt, data)
}

// writtenEvent is an event of a job of the group, whose data is written already.
func (g *group) writtenEvent(i int32, name string, attempt int, data json.RawMessage) deploylog.Event {
	return deploylog.Event{Deployment: g.id, Target: g.targets.Job(int(i) + 1), Name: name, Attempt: attempt, Data: data}
}

func newEvent(id string, target deploylog.Target, name string, attempt int, data any) deploylog.Event {
	text, err := record.Encode(data)
	if err != nil {
		text = nil // which it never is: the data of events are texts and numbers
	}
	return deploylog.Event{Deployment: id, Target: target, Name: name, Attempt: attempt, Data: text}
}
