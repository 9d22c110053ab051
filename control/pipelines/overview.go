package pipelines

import (
	"maps"
	"strings"
	"time"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline"
)

// Overview is what the log tells of pipelines besides their state: what came to
// which place last, when, and what is being worked on. It is told every event,
// in order (see NewPipelines), so it can be of any moment.
type Overview struct {
	latest   map[deploylog.Target]Latest
	released map[string]release // by deployment
	releases int
	working  map[string]Working // by run
	failed   map[stepKey]Working
}

// release is how a deployment began.
type release struct {
	pipeline deploylog.Target
	order    int // of registration
	at       time.Time
}

// Latest is what became of a target: of the revisions that came so far, the one
// that was registered last.
type Latest struct {
	Deployed      string `json:"deployed,omitempty"` // revision; "" is none
	DeployedEvent int64  `json:"deployed_event,omitempty"`
	Failed        string `json:"failed,omitempty"`
	FailedEvent   int64  `json:"failed_event,omitempty"`

	deployed, failed int // order of registration
}

// Working is a run that a scheduler has begun and that has not ended.
type Working struct {
	Run        string
	Seq        int64 // event of its beginning
	Deployment string
	Target     deploylog.Target // of the step
	Event      string
}

// NewOverview knows nothing yet.
func NewOverview() *Overview {
	return &Overview{
		latest: map[deploylog.Target]Latest{}, released: map[string]release{},
		working: map[string]Working{}, failed: map[stepKey]Working{},
	}
}

// Note takes note of an event.
func (o *Overview) Note(e deploylog.Event) {
	if e.Target.Kind() == "run" {
		o.noteRun(e)
		return
	}
	name, ok := pipeline.NameOf(e.Target)
	if !ok {
		return
	}
	if e.Name == pipeline.EventDeleted {
		o.forget(e.Target)
		return
	}
	if e.Name == e.Target.Started() && e.Target.Kind() == "pipeline" {
		o.releases++
		o.released[e.Deployment] = release{pipeline: e.Target, order: o.releases, at: e.CreatedAt}
	}
	delete(o.failed, stepKey{e.Deployment, e.Target, strings.TrimSuffix(e.Name, "-failed")})
	released := o.released[e.Deployment]
	if released.pipeline != pipeline.Target(name) {
		return // of one that was deleted, told late
	}
	order := released.order
	l := o.latest[e.Target]
	switch {
	case e.Name == e.Target.Succeeded() && order >= l.deployed:
		l.Deployed, l.DeployedEvent, l.deployed = e.Revision, e.Seq, order
	case e.Name == e.Target.Failed() && order >= l.failed:
		l.Failed, l.FailedEvent, l.failed = e.Revision, e.Seq, order
	default:
		return
	}
	o.latest[e.Target] = l
}

// forget has a pipeline that comes later under the name of one that is deleted
// begin anew.
func (o *Overview) forget(deleted deploylog.Target) {
	of := func(t deploylog.Target) bool {
		name, _ := pipeline.NameOf(t)
		return pipeline.Target(name) == deleted
	}
	maps.DeleteFunc(o.latest, func(t deploylog.Target, _ Latest) bool { return of(t) })
	maps.DeleteFunc(o.released, func(_ string, r release) bool { return r.pipeline == deleted })
	maps.DeleteFunc(o.failed, func(k stepKey, _ Working) bool { return of(k.target) })
}

func (o *Overview) noteRun(e deploylog.Event) {
	if e.Name != e.Target.Started() {
		w, ok := o.working[e.Deployment]
		if delete(o.working, e.Deployment); ok && e.Name == e.Target.Failed() {
			w.Seq = e.Seq
			o.failed[w.key()] = w
		}
		return
	}
	details := runs.Details(e)
	if details["target"] == "" {
		return
	}
	w := Working{
		Run: e.Deployment, Seq: e.Seq, Deployment: details["deployment"], Target: deploylog.Target(details["target"]), Event: details["event"],
	}
	o.working[e.Deployment] = w
	delete(o.failed, w.key())
}

func (w Working) key() stepKey { return stepKey{w.Deployment, w.Target, w.Event} }

// Failed finds the run that failed to do the work of an entry last, with the event
// of its failure, while that is not done again and not given up.
func (o *Overview) Failed(r pipeline.Reason) (Working, bool) {
	w, ok := o.failed[stepKey{r.Deployment, r.Target, r.Event}]
	return w, ok
}

// Latest is what became of a target.
func (o *Overview) Latest(t deploylog.Target) Latest { return o.latest[t] }

// Released is when a deployment was.
func (o *Overview) Released(deployment string) time.Time { return o.released[deployment].at }

// Working finds the run that does the work of an entry.
func (o *Overview) Working(r pipeline.Reason) (Working, bool) {
	for _, w := range o.working {
		if w.Deployment == r.Deployment && w.Target == r.Target && w.Event == r.Event {
			return w, true
		}
	}
	return Working{}, false
}

// Busy are the runs on the host of a target, of whatever pipeline.
func (o *Overview) Busy(t deploylog.Target) []Working {
	var busy []Working
	host := string(t)[strings.LastIndexByte(string(t), '/')+1:]
	for _, w := range o.working {
		if w.Target.Kind() == "host" && strings.HasSuffix(string(w.Target), "/"+host) {
			busy = append(busy, w)
		}
	}
	return busy
}
