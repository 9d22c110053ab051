package query

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
)

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

// openRun is a run that has not ended, of a step or not.
type openRun struct {
	started, last deploylog.Event
}

// stepRun is a run that does, or failed to do, the work of a step.
type stepRun struct {
	step
	run string
	seq int64 // event of its beginning or failure
	at  time.Time
	new time.Time // of the newest event of the run

	events []deploylog.Event // of one that failed: those that tell of it
}

// of is the run of a step; ok is false for one of nothing of a pipeline. What it is of is
// only read where somebody asks: of many runs few are open.
func (r openRun) of() (w stepRun, ok bool) {
	details := runs.DataOf(r.started).Details
	if details["target"] == "" {
		return w, false
	}
	s := step{details["deployment"], deploylog.Target(details["target"]), details["event"]}
	return stepRun{step: s, run: r.started.Deployment, seq: r.started.Seq, at: r.started.CreatedAt, new: r.last.CreatedAt}, true
}

func (o *overview) receiveRun(e deploylog.Event) {
	if e.Name == e.Target.Started() {
		r := openRun{e, e}
		o.working[e.Deployment] = r
		if len(o.failed) > 0 {
			if w, ok := r.of(); ok {
				delete(o.failed, w.step)
			}
		}
		return
	}
	r, open := o.working[e.Deployment]
	delete(o.working, e.Deployment)
	if !open || e.Name != e.Target.Failed() {
		return
	}
	if w, ok := r.of(); ok {
		w.seq, w.events = e.Seq, []deploylog.Event{r.started, e}
		o.failed[w.step] = w
	}
}

// working are the runs that do the work of such steps, in the order of their starts.
func (p *Pipelines) working(such func(step) bool) (alive []stepRun) {
	for _, r := range p.overview.working {
		if w, ok := r.of(); ok && such(w.step) && runs.Alive(p.Log, w.run) {
			alive = append(alive, w)
		}
	}
	slices.SortFunc(alive, func(a, b stepRun) int { return cmp.Compare(a.seq, b.seq) })
	return alive
}
