// Package report is what a run says: each thing that happens in it, what a plan is to do and what
// drifted, how it ended, and why something was skipped or failed. It is what the log records, what
// people and programs see, and what a later run is given of it.
package report

import (
	"time"

	"github.com/deployster-go/deployster/protocol"
)

// Event is one thing that happened in a run. Recorded events are facts for the
// deployment log and are given to the run's Recorder first, then to its Observer;
// the others are news for people and reach the Observer only. Secrets are
// masked in all of them.
type Event struct {
	Kind     EventKind
	Time     time.Time
	Resource string // "" for events of the whole run
	Action   string // "init", "state" or the action's name, where a container is meant; of several of one name "NAME", "NAME#2" …
	Attempt  int    // from 1: the how-manieth time within this run that this action of the resource is tried

	Image    string        // ResourceInitialized, Pulling: reference of the image
	ImageID  string        // ResourceInitialized: id of its content
	Status   Status        // ResourceResolved, ResourceVerified, ResourceFinished
	Actions  []string      // ResourceResolved: names of the actions to do
	Differs  []string      // ResourceResolved: how what there is differs from the configuration, a line a difference (diff.Lines)
	Exit     *int          // ActionFinished, ActionFailed: exit code; nil when it never ended by itself
	Lost     bool          // ActionFailed: how it ended is not known, since the engine was lost
	Duration time.Duration // of what ended: action, resource or run
	Reason   ReasonCode    // ResourceFailed, ResourceSkipped: why
	Error    string        // *Failed, ResourceSkipped: why, as a sentence
	Output   []string      // ActionFailed: its last lines

	Thing     string            // of a resource that is no longer declared: which thing of that name it is (Same); "" is not known
	ID        string            // of the thing within the log, where that is not its resource's name; for the Recorder only
	Took      *Owned            // of what is made or VALID: another manifest had it, and this one has it from now on; for the Recorder only
	Key       string            // ResourceDestroyed, ResourceResolved: see Identity; for the Recorder only
	Owner     *OwnedBy          // ResourceDestroyed: the manifest that had it, where that is not the one of the run; for the Recorder only
	Removing  bool              // of a resource that an Apply removes since it is no longer declared
	Keep      map[string]any    // ResourceKept: what is kept from now on, empty for nothing; for the Recorder only
	Protect   bool              // ResourceKept: it may hold secrets
	Secrets   [][]string        // ResourceKept: where there are values in it that are not to be seen, whatever its type says
	Counts    Counts            // RunFinished, RunFailed
	Outputs   Outputs           // RunFinished: of an Apply, what the manifest tells
	Resources []ResourceHeader  // RunStarted: in graph order; ResourceExpanded: the instances; Leftover: what is no longer declared
	Plan      *protocol.Action  // ActionStarted: the action as the resource type described it
	Data      map[string]string // RunStarted: what else identifies the run (manifest, hash, user, host, engine, command); ResourceResolved: "by" is "log" where the type was not asked
	Current   int64             // Pulling: bytes so far
	Total     int64             // Pulling: bytes in all, 0 while unknown
	Stream    string            // Line: "stdout" or "stderr"
	Text      string            // Line, Waiting, Warning, Leftover
	File      string            // Line: where all that the stream says is kept; below the workspace, a path from there

	made *Made
}

// Made is what the first action of a resource makes, of an ActionStarted, and what there is, of a
// ResourceResolved that is VALID. It has secrets, and is for the Recorder alone: nil for others.
func (e Event) Made() *Made { return e.made }

// With returns the event with what it makes.
func (e Event) With(made *Made) Event {
	e.made = made
	return e
}

// Public returns the event without what is for the Recorder alone.
func (e Event) Public() Event {
	e.made, e.Outputs.secrets, e.Took, e.Owner, e.ID, e.Key = nil, nil, nil, nil, "", ""
	return e
}

// ResourceHeader is what is known of a resource before anything has run.
type ResourceHeader struct {
	Name      string
	Type      string
	DependsOn []string // names of resources, sorted
}

// Size is about how many bytes it takes in an event, at most.
func (h ResourceHeader) Size() int {
	n := len(h.Name) + len(h.Type) + 64
	for _, name := range h.DependsOn {
		n += len(name) + 3
	}
	return n
}

// EventKind says what happened.
type EventKind string

// The recorded kinds. Their values are the event names in the deployment log.
const (
	RunStarted  EventKind = "run-started"
	RunFinished EventKind = "run-finished-successfully"
	RunFailed   EventKind = "run-failed"

	ResourceStarted     EventKind = "resource-started"
	ResourceInitialized EventKind = "resource-initialized"
	ResourceResolved    EventKind = "resource-resolved"
	ResourceVerified    EventKind = "resource-verified"
	ResourceKept        EventKind = "resource-kept"      // what its type has kept of it is another; only recorded, never shown
	ResourceAdopted     EventKind = "resource-adopted"   // what is there counts as made by a run of the manifest
	ResourceDestroyed   EventKind = "resource-destroyed" // verified to be gone
	ResourceForgotten   EventKind = "resource-forgotten" // it is another resource's by now
	ResourceFinished    EventKind = "resource-finished-successfully"
	ResourceFailed      EventKind = "resource-failed"
	ResourceSkipped     EventKind = "resource-skipped"  // not tried: a dependency failed, or the run stopped
	ResourceExpanded    EventKind = "resource-expanded" // of a late one: its instances are known, and go on in its place

	ActionStarted  EventKind = "action-started"
	ActionFinished EventKind = "action-finished-successfully"
	ActionFailed   EventKind = "action-failed"
)

// The kinds that only the Observer sees.
const (
	Pulling   EventKind = "pulling" // an image is being fetched
	Waiting   EventKind = "waiting" // for a lock, a leftover or an answer; Text says which
	Working   EventKind = "working" // a type was given something to do: Action says what
	StateRead EventKind = "looked"  // a state was read for what needs it; nothing is decided of its resource
	Line      EventKind = "line"    // one line of an action's output, or of any container's stderr
	Warning   EventKind = "warning"
	Leftover  EventKind = "undeclared" // what runs made is no longer declared, and stays
)

// Recorded reports whether events of this kind belong into the deployment log.
func (k EventKind) Recorded() bool {
	switch k {
	case Pulling, Waiting, Working, StateRead, Line, Warning, Leftover:
		return false
	default:
		return true
	}
}
