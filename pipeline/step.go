package pipeline

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// Step is one thing that may happen now. When it has, its event is recorded.
type Step struct {
	Deployment   string
	Revision     string
	Target       deploylog.Target
	Event        string
	Attempt      int
	Stage        string        // "" for the pipeline's
	Group        string        // "" for what is no group's
	Host         string        // "" for what is no host's
	Manifest     string        // what has to be applied first; "" is nothing
	Files        Files         // what the manifest and its includes were when the revision was released; nil is as they are now
	Environment  string        // what the revision has to be deployed to first; "" is nothing
	Original     string        // the deployment that deployed to the environment what it is rolled back to; "" is no rollback
	Retries      int           // how often the work is tried again
	Tries        Tries         // of the work that have failed
	Timeout      time.Duration // of the work; 0 is none
	Artifacts    []string      // kinds that applying has to make
	Cause        string        // of a failure that is to be recorded
	NotBefore    time.Time     // when it may be recorded at the earliest; zero is at once
	SupersededBy string        // the revision for which this one is passed over
	Skipped      Skips         // what the end of a place comes without
}

// Work reports whether something has to be done before the event is recorded.
func (s Step) Work() bool { return s.Manifest != "" || s.Environment != "" }

// Completed are the events that record that the step was done, to be appended
// together. made refers to the artifacts that its manifest made, by kind; all
// of the step's are needed, and none may be one that the log refuses.
func (s Step) Completed(made map[string]string) ([]deploylog.Event, error) {
	var events []deploylog.Event
	var missing []string
	for _, kind := range s.Artifacts {
		ref, ok := made[kind]
		if !ok {
			missing = append(missing, kind)
			continue
		}
		if err := validRef(ref); err != nil {
			return nil, fmt.Errorf("artifact %s that manifest %s of stage %s made: %w", kind, s.Manifest, s.Stage, err)
		}
		events = append(events, s.event(definition.ArtifactReceived(kind), payload{Ref: ref}.data()))
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("manifest %s of stage %s made no artifact %s: it has to give a reference to each", s.Manifest, s.Stage, strings.Join(missing, ", "))
	}
	e := s.event(s.Event, nil)
	if s.SupersededBy != "" {
		e.Data = payload{SupersededBy: s.SupersededBy}.data()
	}
	if s.Cause != "" || len(s.Skipped.Steps) > 0 {
		p := payload{Error: deploylog.Cause(s.Cause), Skipped: s.Skipped.Steps, Nothing: s.Skipped.Nothing}
		if s.Event == EventSkipped {
			p = payload{Reason: deploylog.Cause(s.Cause)}
		}
		e.Data = p.data()
	}
	return append(events, e), nil
}

// Begun is the event that records that the work of steps begins now, once for each
// time that it does. It changes nothing: an end decides. It has an ID of its own, for
// the steps may be of several deployments.
func (s *State) Begun(id string, steps []Step) deploylog.Event {
	p := payload{}
	for _, step := range steps {
		p.Steps = append(p.Steps, step.data(step.Tries.Failed+1))
	}
	return deploylog.Event{Deployment: id, Target: s.target, Name: EventStepsBegun, Attempt: 1, Data: p.data()}
}

// longestRef is how long a reference to an artifact may be, in bytes.
const longestRef = 4 << 10

// validRef refuses what is no reference: who makes the artifact may give
// anything, of any size.
func validRef(ref string) error {
	if len(ref) > longestRef {
		return fmt.Errorf("its reference is %d bytes long, at most %d are allowed: store what it holds elsewhere and refer to it", len(ref), longestRef)
	}
	if i := strings.IndexFunc(ref, unicode.IsControl); i >= 0 {
		return fmt.Errorf("its reference holds a control character at byte %d: give one without", i)
	}
	return nil
}

// Failed is the event that records that the step's work failed for good.
func (s Step) Failed(cause, by string) deploylog.Event {
	return s.event(s.Event+failedAfter, payload{Error: deploylog.Cause(cause), Try: s.Tries.Failed + 1, By: by}.data())
}

func (s Step) event(name string, data []byte) deploylog.Event {
	return deploylog.Event{
		Deployment: s.Deployment, Target: s.Target, Revision: s.Revision, Name: name, Attempt: s.Attempt, Data: data,
	}
}
