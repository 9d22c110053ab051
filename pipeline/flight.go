package pipeline

import (
	"fmt"

	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/step"
)

// flies reports whether a host is in flight, also by what is done there, or was tried, of
// which no event of its own tells yet.
func (w *walk) flies(i, g int, h int32) bool {
	run := &w.d.Stages[i].Groups[g].Hosts[h]
	if run.InFlight() || !run.Reopened || run.Closed {
		return run.InFlight()
	}
	t := w.l.Stages[i].Groups[g].Hosts[h].Target
	for k := range w.d.Tries {
		if k.Target == t {
			return true
		}
	}
	return w.work.FirstAt(t, func(o *step.Work) bool { return o.Deployment == w.d.ID }) != nil
}

// flying is how many hosts of a group are in flight.
func (w *walk) flying(i, g int) int {
	run := &w.d.Stages[i].Groups[g]
	n := run.InFlight
	if run.Reopened == 0 {
		return n
	}
	for h := run.Head; h != deployment.None; h = run.Hosts[h].Next {
		if run.Hosts[h].Reopened && w.flies(i, g, h) {
			n++
		}
	}
	return n
}

// hosts yields the next steps of the open hosts of a group. No more begin than may be in
// flight at once: so many hosts may break beyond those that may fail.
func (w *walk) hosts(i, g int) bool {
	group, run := &w.l.Stages[i].Groups[g], &w.d.Stages[i].Groups[g]
	left := w.flying(i, g)
	room := group.MostInFlight(len(group.Hosts)) - left
	var why reason.Reason
	if w.waits != nil && room < run.Open-left {
		why = w.inFlightReason(i, g, left)
	}
	for h := run.Head; h != deployment.None; h = run.Hosts[h].Next {
		at, flies := deployment.Place{Stage: i, Group: g, Host: int(h)}, w.flies(i, g, h)
		if !flies && room <= 0 {
			if w.waits != nil {
				w.waits(at, why)
			} else if left <= 0 {
				return true // all others have to wait
			}
			continue
		}
		step := w.host(at)
		work := w.beside(step)
		switch {
		case flies:
			left--
		case work == nil: // else it does not begin yet
			room--
		}
		if !w.unless(work, step) {
			return false
		}
	}
	return true
}

// inFlightReason is why a host of a group does not begin: the first of those in flight.
func (w *walk) inFlightReason(i, g, flying int) reason.Reason {
	group, run := &w.l.Stages[i].Groups[g], &w.d.Stages[i].Groups[g]
	r := reason.Reason{Code: reason.AwaitsFlight, Name: group.Name, Cause: fmt.Sprintf("%d of %d, and max_in_flight lets %d", flying, len(group.Hosts), group.MostInFlight(len(group.Hosts)))}
	for h := run.Head; h != deployment.None; h = run.Hosts[h].Next {
		if w.flies(i, g, h) {
			k, _ := run.Hosts[h].Marks.Began()
			r.By, r.ByEvent, r.Seq = group.Hosts[h].Target, k.Event, k.Seq
			break
		}
	}
	return r
}
