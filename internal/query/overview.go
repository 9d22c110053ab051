package query

import (
	"maps"
	"strings"
	"time"

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
	working  map[string]openRun // by run
	failed   map[step]stepRun   // the last, of work that is not done again and not given up
	aside    map[deploylog.Target]asideFailure
}

// asideFailure is that of a deployment of a stage alone, which nothing has finished since.
type asideFailure struct {
	of       deploylog.Target // the pipeline
	revision string
	event    int64
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
	rollback         int64 // first event of a rollback here; 0 is none
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
	ended    time.Time        // by its last end; it may be under way again since
	rollback bool             // of a stage
	only     deploylog.Target // of a stage alone: the revision does not go through the pipeline
}

func newOverview() *overview {
	return &overview{
		latest: map[deploylog.Target]LatestRevisions{}, released: map[string]release{}, working: map[string]openRun{}, failed: map[step]stepRun{},
		aside: map[deploylog.Target]asideFailure{},
	}
}

// receive receives an event.
func (o *overview) receive(e deploylog.Event) {
	if r, known := o.working[e.Deployment]; known {
		r.last = e
		o.working[e.Deployment] = r
	}
	if e.Target.Kind() == "run" {
		o.receiveRun(e)
	}
	if name, ok := record.NameOf(e.Target); ok {
		o.receiveOf(name, e)
	}
}

// receiveOf receives an event of a pipeline.
func (o *overview) receiveOf(name string, e deploylog.Event) {
	switch {
	case e.Name == record.PipelineDeleted:
		o.forget(name)
		return
	case e.Name == e.Target.Started() && e.Target == record.Target(name):
		o.released[e.Deployment] = o.release(name, e)
	case e.Target == record.Target(name) && endsDeployment(e):
		o.end(e, name)
	}
	if len(o.failed) > 0 {
		delete(o.failed, step{e.Deployment, e.Target, strings.TrimSuffix(e.Name, "-failed")})
	}
	r, l := o.released[e.Deployment], o.latest[e.Target]
	o.receiveAside(name, r, e)
	if r.rollback && l.rollback == 0 {
		l.rollback = e.Seq
	}
	switch {
	case r.pipeline != name: // of one that was deleted, and ended late
		return
	case r.only != "" && e.Target == record.Target(name):
		return
	case e.Name == e.Target.Succeeded() && (r.event >= l.deployed || l.rollback > 0):
		l.succeed(e, r.event)
	case e.Name == e.Target.Failed() && (r.event >= l.failed || l.rollback > 0):
		l.Failed, l.FailedEvent, l.failed = e.Revision, e.Seq, r.event
	case r.rollback: // what comes now comes after it
	default:
		return
	}
	o.latest[e.Target] = l
}

// receiveAside notes which deployments of a stage alone have failed, until something finishes
// the stage.
func (o *overview) receiveAside(name string, r release, e deploylog.Event) {
	switch {
	case e.Target.Kind() == "stage" && e.Name == e.Target.Succeeded():
		delete(o.aside, e.Target)
	case r.pipeline == name && r.only != "" && e.Target == record.Target(name) && e.Name == e.Target.Failed():
		o.aside[r.only] = asideFailure{e.Target, e.Revision, e.Seq}
	}
}

// latestOf is what became of a target. Of a pipeline that is also the last failure of a stage
// that was rolled back or done again, until the stage is finished.
func (o *overview) latestOf(t deploylog.Target) LatestRevisions {
	l := o.latest[t]
	for _, f := range o.aside {
		if f.of == t && f.event > l.FailedEvent {
			l.Failed, l.FailedEvent = f.revision, f.event
		}
	}
	return l
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

// needs reports whether an event of a pipeline is one that the latest of its target follows
// from. Those of pipelines themselves are needed for their states anyway.
func (o *overview) needs(e deploylog.Event) bool {
	switch l := o.latest[e.Target]; e.Seq {
	case l.DeployedEvent, l.CompleteEvent, l.PassedEvent, l.FailedEvent, l.rollback:
		return true
	}
	return false
}

// others are the events of runs that are needed.
func (o *overview) others() (events []deploylog.Event) {
	for _, r := range o.working {
		events = append(events, r.started, r.last)
	}
	for _, r := range o.failed {
		events = append(events, r.events...)
	}
	return events
}

// release is how a deployment of a pipeline begins. What does a stage again counts as what it
// does again.
func (o *overview) release(name string, e deploylog.Event) release {
	r := release{pipeline: name, event: e.Seq, at: e.CreatedAt, by: strings.TrimPrefix(actorOf(e), "by ")}
	if rollback := record.RollbackOf(e); rollback != nil {
		r.rollback, r.only = true, rollback.Target
	}
	if redo := record.RedoOf(e); redo != nil {
		of := o.released[redo.Of]
		r.event, r.rollback, r.only = of.event, of.rollback, redo.Target
	}
	return r
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
		if l := o.latest[place.Target]; release > 0 && l.failed == release && (l.deployed < release || l.succeeded < l.FailedEvent) {
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
	maps.DeleteFunc(o.aside, func(t deploylog.Target, _ asideFailure) bool { return of(t) })
	maps.DeleteFunc(o.released, func(_ string, r release) bool { return r.pipeline == deleted })
	maps.DeleteFunc(o.failed, func(s step, _ stepRun) bool { return of(s.target) })
}
