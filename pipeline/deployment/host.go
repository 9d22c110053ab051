package deployment

import (
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/pipeline/record"
)

type groupRun struct {
	Marks    *record.Marks
	Begun    bool
	Finished bool
	Failed   int // hosts
	InFlight int // hosts
	Reopened int // Open hosts
	Open     int // Hosts neither finished nor failed
	Beside   int // Hosts that are not done, and were before
	Hosts    []hostRun
	Head     int32 // first open host
}

// hostRun is a host. Open hosts are linked, so that looking for the next steps
// costs nothing for the others.
type hostRun struct {
	Marks      *record.Marks
	Last       int32 // index in the stage's chain of the last thing that happened
	StepFailed bool  // a step failed for good
	Failed     bool  // so did the host
	Closed     bool  // Finished or failed
	Beside     bool  // it is not done: it was before
	Reopened   bool  // it failed in an earlier attempt, and nothing is recorded of it in this one
	prev, Next int32
}

func (d *Deployment) deriveGroup(group *GroupLayout, chain []string) groupRun {
	run := groupRun{Marks: d.Marks[group.Target], Head: None, Hosts: make([]hostRun, len(group.Hosts))}
	_, run.Begun = run.Marks.Began()
	run.Finished = run.Marks.Has(record.GroupFinished) || d.LeavesOut(group.Target)
	last := int32(None)
	for h := range group.Hosts {
		host := &run.Hosts[h]
		if d.repairs() && !d.Redo.hosts[group.Hosts[h].Target] {
			*host = hostRun{Last: None, Closed: true, Beside: true, prev: None, Next: None}
			run.Beside++
			continue
		}
		*host = hostRun{Marks: d.Marks[group.Hosts[h].Target], Last: None, Reopened: d.Reopened[group.Hosts[h].Target], prev: None, Next: None}
		if host.Marks != nil {
			run.Begun = true
			for _, k := range *host.Marks {
				host.apply(chain, k.Event)
			}
		}
		if host.Closed {
			if host.Failed {
				run.Failed++
			}
			continue
		}
		run.Open++
		if host.InFlight() {
			run.InFlight++
		}
		if host.Reopened {
			run.Reopened++
		}
		if last == None {
			run.Head = int32(h)
		} else {
			run.Hosts[last].Next, host.prev = int32(h), last
		}
		last = int32(h)
	}
	return run
}

// apply folds in an event of the host. What a closed host still reports, because it
// was running when the pipeline changed, changes nothing.
func (h *hostRun) apply(chain []string, event string) {
	switch {
	case h.Closed:
	case event == record.HostFailed:
		h.Failed, h.Closed = true, true
	case record.IsFailure(event):
		h.StepFailed = true
	default:
		if i := slices.Index(chain, event); i >= 0 {
			h.Last = max(h.Last, int32(i))
			h.Closed = i == len(chain)-1
		}
	}
}

// unlink removes a closed host from the list of open ones.
func (g *groupRun) unlink(host *hostRun) {
	if host.prev == None {
		g.Head = host.Next
	} else {
		g.Hosts[host.prev].Next = host.Next
	}
	if host.Next != None {
		g.Hosts[host.Next].prev = host.prev
	}
	g.Open--
	if host.Failed {
		g.Failed++
	}
}

// InFlight reports whether the steps of a host are under way: they have begun, and it has
// neither finished nor failed. One that failed is not, after a retry, before something of it
// is recorded again.
func (h *hostRun) InFlight() bool {
	return !h.Closed && !h.Reopened && (h.Last != None || h.StepFailed)
}

// Cause is how the first host failed.
func (g *groupRun) Cause(group *GroupLayout) string {
	for h := range g.Hosts {
		if g.Hosts[h].Failed {
			k, _ := g.Hosts[h].Marks.Failure()
			return fmt.Sprintf("%s: %s", group.Hosts[h].Name, k.Describe())
		}
	}
	return ""
}
