package query

import (
	"maps"
	"strings"
	"time"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/record"
)

// overview is what the log tells of pipelines beside their state: what came to which
// target last, when, and what is being worked on. It receives every event, in order,
// so it can be of any moment.
type overview struct {
	latest   map[deploylog.Target]LatestRevisions
	released map[string]release // by deployment
	working  map[string]stepRun // by run
	failed   map[step]stepRun   // the last, of work that is not done again and not given up
}

// LatestRevisions is what became of a target: of the revisions that came so far, the
// one that was released last. Once a rollback has come to it, it is the one that came last:
// revisions that were released before the rollback may come after it.
type LatestRevisions struct {
	Deployed      string   `json:"deployed,omitempty"` // revision that was applied; "" is none
	DeployedEvent int64    `json:"deployed_event,omitempty"`
	Skipped       []string `json:"skipped,omitempty"`  // steps that it was applied without
	Complete      string   `json:"complete,omitempty"` // revision of which all steps were applied
	CompleteEvent int64    `json:"complete_event,omitempty"`
	Passed        string   `json:"passed,omitempty"` // newer revision that got to the end, and of which no step was applied
	PassedEvent   int64    `json:"passed_event,omitempty"`
	Failed        string   `json:"failed,omitempty"`
	FailedEvent   int64    `json:"failed_event,omitempty"`

	deployed, failed int64 // events of the releases
	succeeded        int64 // event at which the deployed one did
	rolledBack       bool
}

// succeed takes note of the end of a revision that was released by an event.
func (l *LatestRevisions) succeed(e deploylog.Event, released int64) {
	skips := record.SkipsOf(e)
	l.deployed, l.succeeded = released, e.Seq
	if skips.Nothing {
		l.Passed, l.PassedEvent = e.Revision, e.Seq
		return
	}
	l.Deployed, l.DeployedEvent, l.Skipped, l.Passed, l.PassedEvent = e.Revision, e.Seq, skips.Steps, "", 0
	if len(skips.Steps) == 0 {
		l.Complete, l.CompleteEvent = e.Revision, e.Seq
	}
}

// release is how a deployment began.
type release struct {
	pipeline string
	event    int64
	at       time.Time
	by       string
	ended    time.Time // by its last end; it may be under way again since
	rollback bool      // of a stage: the revision does not go through the pipeline
}

// step is an entry of a deployment that takes work.
type step struct {
	deployment string
	target     deploylog.Target
	event      string
}

// onHostOf reports whether the step is done on the host of a target, of whatever
// pipeline.
func (s step) onHostOf(t deploylog.Target) bool {
	return s.target.Kind() == "host" && strings.HasSuffix(string(s.target), string(t)[strings.LastIndexByte(string(t), '/'):])
}

// stepRun is a run that does, or failed to do, the work of a step.
type stepRun struct {
	step
	run string
	seq int64 // event of its beginning or failure
	at  time.Time
	new time.Time // of the newest event of the run
}

func newOverview() *overview {
	return &overview{
		latest: map[deploylog.Target]LatestRevisions{}, released: map[string]release{}, working: map[string]stepRun{}, failed: map[step]stepRun{},
	}
}

// receive receives an event.
func (o *overview) receive(e deploylog.Event) {
	name, ok := record.NameOf(e.Target)
	if r, known := o.working[e.Deployment]; known {
		r.new = e.CreatedAt
		o.working[e.Deployment] = r
	}
	switch {
	case e.Target.Kind() == "run":
		o.receiveRun(e)
		return
	case !ok:
		return
	case e.Name == record.PipelineDeleted:
		o.forget(name)
		return
	case e.Name == e.Target.Started() && e.Target == record.Target(name):
		o.released[e.Deployment] = release{pipeline: name, event: e.Seq, at: e.CreatedAt, by: strings.TrimPrefix(actorOf(e), "by "), rollback: record.RollbackOf(e) != nil}
	case e.Target == record.Target(name) && endsDeployment(e):
		o.end(e, name)
	}
	delete(o.failed, step{e.Deployment, e.Target, strings.TrimSuffix(e.Name, "-failed")})
	r, l := o.released[e.Deployment], o.latest[e.Target]
	l.rolledBack = l.rolledBack || r.rollback
	switch {
	case r.pipeline != name: // of one that was deleted, and ended late
		return
	case r.rollback && e.Target == record.Target(name):
		return
	case e.Name == e.Target.Succeeded() && (r.event >= l.deployed || l.rolledBack):
		l.succeed(e, r.event)
	case e.Name == e.Target.Failed() && (r.event >= l.failed || l.rolledBack):
		l.Failed, l.FailedEvent, l.failed = e.Revision, e.Seq, r.event
	case r.rollback: // what comes now comes after it
	default:
		return
	}
	o.latest[e.Target] = l
}

// endsDeployment reports whether an event of a pipeline ends a deployment.
func endsDeployment(e deploylog.Event) bool {
	switch e.Name {
	case e.Target.Succeeded(), e.Target.Failed(), record.PipelineCancelled, record.PipelineSkipped, record.PipelineSuperseded:
		return true
	default:
		return false
	}
}

// end notes when a deployment ended.
func (o *overview) end(e deploylog.Event, name string) {
	if r, known := o.released[e.Deployment]; known && r.pipeline == name {
		r.ended = e.CreatedAt
		o.released[e.Deployment] = r
	}
}

// failedHosts counts the hosts of a group, which are the first of those behind it, and
// finds those on which the revision failed that is deployed to the group.
func (o *overview) failedHosts(group pipeline.Place, behind []pipeline.Place) (hosts int, failed []string) {
	release := o.latest[group.Target].deployed
	for _, place := range behind {
		if place.Group != group.Group || place.Host == "" {
			break
		}
		hosts++
		if l := o.latest[place.Target]; release > 0 && l.failed == release && (l.deployed < release || l.rolledBack && l.succeeded < l.FailedEvent) {
			failed = append(failed, place.Host)
		}
	}
	return hosts, failed
}

// forget has a pipeline that comes later under the name of one that is deleted
// begin anew.
func (o *overview) forget(deleted string) {
	of := func(t deploylog.Target) bool {
		name, _ := record.NameOf(t)
		return name == deleted
	}
	maps.DeleteFunc(o.latest, func(t deploylog.Target, _ LatestRevisions) bool { return of(t) })
	maps.DeleteFunc(o.released, func(_ string, r release) bool { return r.pipeline == deleted })
	maps.DeleteFunc(o.failed, func(s step, _ stepRun) bool { return of(s.target) })
}

func (o *overview) receiveRun(e deploylog.Event) {
	if e.Name != e.Target.Started() {
		r, ok := o.working[e.Deployment]
		if delete(o.working, e.Deployment); ok && e.Name == e.Target.Failed() {
			r.seq = e.Seq
			o.failed[r.step] = r
		}
		return
	}
	if details := runs.DataOf(e).Details; details["target"] != "" {
		s := step{details["deployment"], deploylog.Target(details["target"]), details["event"]}
		o.working[e.Deployment] = stepRun{step: s, run: e.Deployment, seq: e.Seq, at: e.CreatedAt, new: e.CreatedAt}
		delete(o.failed, s)
	}
}
