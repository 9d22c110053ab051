package step

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// Step is one thing that may happen now. When it has, its event is recorded.
type Step struct {
	Deployment   string
	Revision     string
	Target       deploylog.Target
	Event        string
	Attempt      int
	Stage        string              // "" for the pipeline's
	Group        string              // "" for what is no group's
	Host         string              // "" for what is no host's
	Manifest     string              // what has to be applied first; "" is nothing
	Files        record.Files        // what the manifest and its includes were when the revision was released; nil is as they are now
	Bounds       *deployment.Bounds  // of what the manifest may bring; nil is everything that the revision carries
	Takes        []upstream.Input    // the revisions of other pipelines that the revision takes
	Packages     string              // the file of packages that have to be built first; "" is none
	Environment  string              // what the revision has to be deployed to first; "" is nothing
	Original     string              // the deployment that deployed to the environment what is deployed there again; "" is its own
	RollsBack    bool                // the environment is rolled back to that
	First        bool                // Original never deployed there: its stage came later
	Retries      int                 // how often the work is tried again
	Tries        deployment.Tries    // of the work that have failed
	Timeout      time.Duration       // of the work; 0 is none
	Keeps        bool                // what the manifest no longer declares stays on the host
	Prunes       *deployment.Pruning // of the last step on a host; nil of others
	Artifacts    []string            // kinds that applying has to make, or the packages of which artifacts are wanted; none are all
	Cause        string              // of a failure that is to be recorded
	NotBefore    time.Time           // when it may be recorded at the earliest; zero is at once
	SupersededBy string              // the revision for which this one is passed over
	By           string              // the person who ended the deployment
	Ends         string              // status with which the deployment is to end
	Outcome      *Outcome            // of the earlier stages, in a closing one; nil of others
	Skipped      record.Skips        // what the end of a place comes without
}

// Outcome is how the stages before a closing one have ended.
type Outcome struct {
	Status string // that the deployment is to have
	Stage  string // that failed; "" is none
	Cause  string
}

// Work reports whether something has to be done before the event is recorded.
func (s Step) Work() bool { return s.Manifest != "" || s.Environment != "" || s.Packages != "" }

// Completed are the events that record that the step was done, to be appended
// together. made refers to the artifacts that its manifest made, by kind; all
// of the step's are needed, and none may be one that the log refuses.
func (s Step) Completed(made map[string]string) ([]deploylog.Event, error) {
	if s.Packages != "" {
		return s.built(made)
	}
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
		events = append(events, s.event(definition.ArtifactReceived(kind), record.Payload{Ref: ref}.Data()))
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("manifest %s of stage %s made no artifact %s: it has to give a reference to each", s.Manifest, s.Stage, strings.Join(missing, ", "))
	}
	e := s.event(s.Event, nil)
	if s.SupersededBy != "" {
		e.Data = record.Payload{SupersededBy: s.SupersededBy}.Data()
	}
	if s.Cause != "" || len(s.Skipped.Steps) > 0 {
		p := record.Payload{Error: deploylog.Cause(s.Cause), Skipped: s.Skipped.Steps, Nothing: s.Skipped.Nothing}
		if s.Event == record.PipelineSkipped {
			p = record.Payload{Reason: deploylog.Cause(s.Cause)}
		}
		e.Data = p.Data()
	}
	if p := s.Prunes; p != nil && len(p.Removed)+len(p.Left) > 0 {
		e.Data = record.Payload{Removed: p.Removed, Left: p.Left}.Data()
	}
	switch s.Event {
	case record.EndRequested:
		e.Data = record.Payload{Ends: s.Ends, SupersededBy: s.SupersededBy, Reason: deploylog.Cause(s.Cause)}.Data()
	case record.PipelineCancelled, record.PipelineSkipped:
		if s.By != "" || s.Event == record.PipelineCancelled {
			e.Data = record.Payload{By: s.By, Reason: deploylog.Cause(s.Cause)}.Data()
		}
	}
	return append(events, e), nil
}

// built are the events that record that a group of packages was built.
func (s Step) built(made map[string]string) ([]deploylog.Event, error) {
	for name, ref := range made {
		if err := validRef(ref); err != nil {
			return nil, fmt.Errorf("artifact of package %s that stage %s built: %w", name, s.Stage, err)
		}
	}
	e := s.event(s.Event, record.Payload{Artifacts: made}.Data())
	if len(e.Data) > deploylog.MaxData {
		return nil, fmt.Errorf("stage %s built %d packages, more than one event can name: list those whose artifacts later stages need, as packages of the build", s.Stage, len(made))
	}
	return []deploylog.Event{e}, nil
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
	return s.event(s.Event+record.FailedAfter, record.Payload{Error: deploylog.Cause(cause), Try: s.Tries.Failed + 1, By: by}.Data())
}

func (s Step) event(name string, data []byte) deploylog.Event {
	return deploylog.Event{
		Deployment: s.Deployment, Target: s.Target, Revision: s.Revision, Name: name, Attempt: s.Attempt, Data: data,
	}
}

// Begins reports whether a step begins something: what ends something that has begun is
// recorded also while that is paused.
func (s Step) Begins() bool { return s.Work() || s.Event == s.Target.Started() }

// TryFailed is the event that records that a try of the step's work failed, which is to
// be done again. It has an ID of its own, for a step fails as often as it is tried. run is
// one that may still be at work; "" is none.
func (s Step) TryFailed(id, by, run, cause string) deploylog.Event {
	outcome := record.TryFailed
	if run != "" {
		outcome = record.WorkLost
	}
	return ended(id, by, s.Data(s.Tries.Failed+1), outcome, run, cause)
}

// Lost is the event that records that work that failed for good may still be at work, in
// a run.
func (s Step) Lost(id, by, run, cause string) deploylog.Event {
	return ended(id, by, s.Data(0), record.WorkLost, run, cause)
}

// Settled is the event that records that nothing of work is running any more that only waited,
// and was given up. It has an ID of its own.
func (s Step) Settled(id, by string) deploylog.Event {
	return ended(id, by, s.Data(0), record.WorkSettled, "", "")
}

// Data is its work as it stands in an event, in the try of that number; 0 is none.
func (s Step) Data(try int) record.Work {
	return record.Work{Deployment: s.Deployment, Revision: s.Revision, Target: s.Target, Event: s.Event, Attempt: s.Attempt, Manifest: s.Manifest, Try: try}
}

// ended is the event that records how work ended.
func ended(id, by string, w record.Work, outcome, run, cause string) deploylog.Event {
	w.Outcome, w.Run, w.Error = outcome, run, deploylog.Cause(cause)
	name, _ := record.NameOf(w.Target)
	return deploylog.Event{Deployment: id, Target: record.Target(name), Name: record.StepsEnded, Attempt: 1, Data: record.Payload{By: by, Steps: []record.Work{w}}.Data()}
}

// Tried is the reason why a step whose work failed is to be tried again; ok is false where
// none has failed.
func (s Step) Tried() (r reason.Reason, ok bool) {
	t := s.Tries
	if t.Failed == 0 {
		return r, false
	}
	name, _ := record.NameOf(s.Target)
	return reason.Reason{Code: reason.AwaitsRetry, By: record.Target(name), ByEvent: record.StepsEnded, Seq: t.Seq, Cause: t.Cause, Try: t.Failed, Of: s.Retries + 1, Until: t.Next()}, true
}
