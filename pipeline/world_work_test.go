package pipeline

import (
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// begin lets a step take longer.
func (w *world) begin(s step.Step) {
	if s.Event == record.StageStarted {
		return
	}
	w.running = append(w.running, s)
	if s.Work() {
		w.append(w.state.Begun(w.id(), []step.Step{s}))
	}
}

// trouble lets work end without an event of its step: a try fails, whoever does it dies,
// and who comes after that finds out what became of it. Or a group holds, which is confirmed.
func (w *world) trouble(what int, steps []step.Step) {
	if what == 24 {
		_ = w.propose(Confirm{Group: someGroups[w.n(len(someGroups), "group")], ID: w.id()})
		return
	}
	run := []string{"", "", "R1"}[w.n(3, "run that may be at work")]
	switch what := w.n(4, "trouble"); {
	case what == 0 && len(w.running) > 0:
		w.running = w.running[1:]
	case what == 1:
		for _, left := range w.state.Left(w.mine) {
			if run == "" {
				w.append(left.Settled(w.id(), "somebody"))
			} else {
				w.append(left.Lost(w.id(), "somebody", run, "no answer"))
			}
		}
	case len(steps) > 0:
		if s := steps[w.n(len(steps), "step")]; s.Work() {
			w.append(s.TryFailed(w.id(), "somebody", run, "exit code 3"))
		}
	}
}

// giveUp may end a revision.
func (w *world) giveUp() bool {
	switch {
	case w.n(3, "skip") == 0:
		_ = w.propose(Skip{Revision: w.anyRevision()})
	case w.n(3, "really") == 0:
		_ = w.propose(Cancel{Revision: w.anyRevision()})
	default:
		return false
	}
	return true
}

// mine is work that is still being done.
func (w *world) mine(o step.Work) bool {
	return slices.ContainsFunc(w.running, func(s step.Step) bool {
		return s.Deployment == o.Deployment && s.Target == o.Target && s.Event == o.Event
	})
}

// release registers another revision, unless there are three.
func (w *world) release(registered int) {
	if registered >= 3 {
		return
	}
	id := w.id()
	if err := w.propose(Release{Fix: w.n(3, "fix") == 0, Revision: fmt.Sprintf("r%d", registered+1), Carries: w.files(w.state.Definition(), id), ID: id}); err != nil {
		w.Fatal(err)
	}
}

// end ends a step, which nobody does twice at once.
func (w *world) end(s step.Step) {
	w.running = slices.DeleteFunc(w.running, func(o step.Step) bool {
		return o.Deployment == s.Deployment && o.Target == s.Target && o.Event == s.Event
	})
	if s.Work() && w.n(6, "fails") == 0 {
		w.append(s.Failed("exit code 3", ""))
		return
	}
	w.complete(s)
}
