package pipeline

import "fmt"

// inFlight reports whether the steps of a host are under way: they have begun, and it has
// neither finished nor failed. One that failed is not, after a retry, before something of it
// is recorded again.
func (h *hostRun) inFlight() bool {
	return !h.closed && !h.reopened && (h.last != none || h.stepFailed)
}

// flies reports whether a host is in flight, also by what is done there, or was tried, of
// which no event of its own tells yet.
func (w *walk) flies(i, g int, h int32) bool {
	run := &w.d.stages[i].groups[g].hosts[h]
	if run.inFlight() || !run.reopened || run.closed {
		return run.inFlight()
	}
	t := w.l.stages[i].groups[g].hosts[h].target
	for k := range w.d.tries {
		if k.target == t {
			return true
		}
	}
	return w.work.firstAt(t, func(o *Work) bool { return o.Deployment == w.d.id }) != nil
}

// flying is how many hosts of a group are in flight.
func (w *walk) flying(i, g int) int {
	run := &w.d.stages[i].groups[g]
	n := run.inFlight
	if run.reopened == 0 {
		return n
	}
	for h := run.head; h != none; h = run.hosts[h].next {
		if run.hosts[h].reopened && w.flies(i, g, h) {
			n++
		}
	}
	return n
}

// hosts yields the next steps of the open hosts of a group. No more begin than may be in
// flight at once: so many hosts may break beyond those that may fail.
func (w *walk) hosts(i, g int) bool {
	group, run := &w.l.stages[i].groups[g], &w.d.stages[i].groups[g]
	left := w.flying(i, g)
	room := group.MostInFlight(len(group.hosts)) - left
	var why Reason
	if w.waits != nil && room < run.open-left {
		why = w.inFlightReason(i, g, left)
	}
	for h := run.head; h != none; h = run.hosts[h].next {
		at, flies := place{i, g, int(h)}, w.flies(i, g, h)
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
func (w *walk) inFlightReason(i, g, flying int) Reason {
	group, run := &w.l.stages[i].groups[g], &w.d.stages[i].groups[g]
	r := Reason{Code: AwaitsFlight, Name: group.Name, Cause: fmt.Sprintf("%d of %d, and max_in_flight lets %d", flying, len(group.hosts), group.MostInFlight(len(group.hosts)))}
	for h := run.head; h != none; h = run.hosts[h].next {
		if w.flies(i, g, h) {
			k, _ := run.hosts[h].marks.began()
			r.By, r.ByEvent, r.Seq = group.hosts[h].target, k.event, k.seq
			break
		}
	}
	return r
}
