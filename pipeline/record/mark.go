package record

import (
	"slices"
	"strings"

	"github.com/deployster-go/deployster/pipeline/definition"
)

// Marks are the events of one target in one deployment, in log order.
type Marks []Mark

// Mark is what is kept of an event.
type Mark struct {
	Event string
	Seq   int64
	Cause string // of failures
}

// First finds the first event that is as wanted.
func (m *Marks) First(wanted func(event string) bool) (Mark, bool) {
	if m != nil {
		if i := slices.IndexFunc(*m, func(k Mark) bool { return wanted(k.Event) }); i >= 0 {
			return (*m)[i], true
		}
	}
	return Mark{}, false
}

// Find finds the first event of a name.
func (m *Marks) Find(event string) (Mark, bool) {
	return m.First(func(e string) bool { return e == event })
}

// Has reports whether there is an event of a name.
func (m *Marks) Has(event string) bool {
	_, ok := m.Find(event)
	return ok
}

// Failure finds the first event that records a failure.
func (m *Marks) Failure() (Mark, bool) { return m.First(IsFailure) }

// Began finds the event with which work on the target began.
func (m *Marks) Began() (Mark, bool) { return m.First(Begins) }

// Begins reports whether an event shows that work on its target has begun. An
// artifact does not: it may be received, or fail, before its stage starts.
func Begins(event string) bool {
	_, is := definition.ArtifactKind(strings.TrimSuffix(event, FailedAfter))
	return !is
}

// Describe says which step failed and why.
func (k Mark) Describe() string {
	step := strings.TrimSuffix(k.Event, FailedAfter)
	if k.Cause == "" {
		return step + " failed"
	}
	return step + " failed: " + k.Cause
}
