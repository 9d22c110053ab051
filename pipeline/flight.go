package pipeline

import "fmt"

// inFlight reports whether the steps of a host are under way: they have begun, and it has
// neither finished nor failed.
func (h *hostRun) inFlight() bool { return !h.closed && (h.last != none || h.stepFailed) }

// hosts yields the next steps of the open hosts of a group. No more begin than may be in
// flight at once: so many hosts may break beyond those that may fail.
func (w *walk) hosts(i, g int) bool {
	group, run := &w.l.stages[i].groups[g], &w.d.stages[i].groups[g]
	room, left := group.MostInFlight(len(group.hosts))-run.inFlight, run.inFlight
	var why Reason
	if w.waits != nil && room < run.open-run.inFlight {
		why = w.inFlightReason(i, g)
	}
	for h := run.head; h != none; h = run.hosts[h].next {
		at, flies := place{i, g, int(h)}, run.hosts[h].inFlight()
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
func (w *walk) inFlightReason(i, g int) Reason {
	group, run := &w.l.stages[i].groups[g], &w.d.stages[i].groups[g]
	r := Reason{Code: AwaitsFlight, Name: group.Name, Cause: fmt.Sprintf("%d of %d, and max_in_flight lets %d", run.inFlight, len(group.hosts), group.MostInFlight(len(group.hosts)))}
	for h := run.head; h != none; h = run.hosts[h].next {
		if run.hosts[h].inFlight() {
			k, _ := run.hosts[h].marks.began()
			r.By, r.ByEvent, r.Seq = group.hosts[h].target, k.event, k.seq
			break
		}
	}
	return r
}
