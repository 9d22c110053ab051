package pipeline

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// waits: something keeps an entry whose turn it is.
func (n *naive) waits(r *revision, e entry) bool {
	return n.holds(e) || n.isPaused(r, e) || r.only == "" && n.keptOut(r, e) || n.rests(r, e) || n.awaitsWork(r, e)
}

// applyWork takes note of what begins and ends.
func (n *naive) applyWork(e deploylog.Event) {
	var data struct {
		Steps []struct {
			Deployment, Target, Event, Outcome string
			Try                                int
		}
	}
	_ = json.Unmarshal(e.Data, &data)
	for _, s := range data.Steps {
		r, at := n.revisions[slices.IndexFunc(n.revisions, func(r *revision) bool { return r.id == s.Deployment })], entry{s.Target, s.Event}
		r.works[at] = s.Outcome == "" || s.Outcome == "lost"
		if s.Outcome != "" && s.Try > 0 {
			r.tries[at] = append(r.tries[at], e.CreatedAt)
		}
	}
}

// rests: after the first failed try a second has to pass, after the second two, and so on,
// never more than a minute. A failure that is yet to come, by the clock, is of a clock
// that was set back.
func (n *naive) rests(r *revision, e entry) bool {
	tries := r.tries[e]
	if len(tries) == 0 {
		return false
	}
	pause := time.Second
	for range min(len(tries)-1, 10) {
		pause = min(2*pause, time.Minute)
	}
	since := n.now.Sub(tries[len(tries)-1])
	return since >= 0 && since < pause
}

// awaitsWork: nobody enters a batch in which something of another revision is still being
// done, nothing ends in which something of its own revision is, and at one target one
// thing is done at a time.
func (n *naive) awaitsWork(r *revision, e entry) bool {
	if e.event == "pipeline-finished-successfully" && r.within("") {
		return true
	}
	if begins := n.batchesAt(e); len(begins) > 0 {
		return slices.ContainsFunc(n.revisions, func(o *revision) bool {
			return o != r && slices.ContainsFunc(begins, func(b [2]entry) bool { return n.worksIn(o, b) })
		})
	}
	kind, name, _ := strings.Cut(e.target, "/")
	switch {
	case e.event == "stage-finished-successfully":
		return slices.ContainsFunc(n.definition.Stages, func(s definition.Stage) bool {
			return n.name+"/"+s.Name == name && n.worksInStage(r, s)
		})
	case e.event == "host-group-finished-successfully":
		return r.within("host/" + name + "/")
	case kind == "host", e.event == "stage-manifest-applied", e.event == "stage-group-built":
		for _, o := range n.revisions {
			for w, going := range o.works {
				if going && w.target == e.target && (o != r || w.event != e.event) {
					return true
				}
			}
		}
	}
	return false
}

// within: something is being done at a target with a prefix.
func (r *revision) within(prefix string) bool {
	for w, going := range r.works {
		if going && strings.HasPrefix(w.target, prefix) {
			return true
		}
	}
	return false
}

func (n *naive) worksInStage(r *revision, s definition.Stage) bool {
	for w, going := range r.works {
		if going && n.isIn(w, s) {
			return true
		}
	}
	return false
}

func (n *naive) isIn(w entry, s definition.Stage) bool {
	if w.target == "stage/"+n.name+"/"+s.Name {
		return true
	}
	return s.Deploy != nil && slices.ContainsFunc(s.Deploy.HostGroups, func(g definition.HostGroup) bool {
		return strings.HasPrefix(w.target, "host/"+n.name+"/"+g.Name+"/")
	})
}

// worksIn: something of a revision is being done in a stage of a batch, or in none that
// the definition knows.
func (n *naive) worksIn(r *revision, batch [2]entry) bool {
	for w, going := range r.works {
		if !going {
			continue
		}
		i := slices.IndexFunc(n.definition.Stages, func(s definition.Stage) bool { return n.isIn(w, s) })
		if i < 0 {
			return true
		}
		name := n.name + "/" + n.definition.Stages[i].Name
		start, finish := entry{"stage/" + name, "stage-started"}, entry{"stage/" + name, "stage-finished-successfully"}
		begun := start == batch[0] || slices.Contains(n.flood(r, batch[0]), start)
		if begun && (finish == batch[1] || slices.Contains(n.flood(r, finish), batch[1])) {
			return true
		}
	}
	return false
}
