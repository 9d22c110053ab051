package pipeline

import (
	"errors"
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

func (w *world) anyRevision() string {
	return w.state.Registrations()[w.n(len(w.state.Registrations()), "revision")].Revision
}

// act lets something happen.
func (w *world) act(steps []step.Step) {
	switch w.n(10, "person") {
	case 0:
		w.pauseOrResume()
	case 1:
		w.rollBack()
	case 2:
		w.doAgain()
	default:
		w.happen(steps)
	}
}

func (w *world) happen(steps []step.Step) {
	registered := len(w.state.Registrations())
	switch what := w.n(25, "act"); {
	case what == 0 || registered == 0:
		w.release(registered)
	case (what == 1 || what == 2) && !w.steady:
		w.define(w.change(w.state.Definition()))
	case what == 3:
		w.setMembers()
	case what == 4 || what == 5:
		w.artifact()
	case what == 6:
		w.judge()
	case what == 7 && w.giveUp():
	case what == 8:
		_ = w.propose(Retry{Revision: w.anyRevision()})
	case what >= 22:
		w.trouble(what, steps)
	case what == 9 && len(steps) > 0:
		w.begin(steps[w.n(len(steps), "step")])
	case what <= 11 && len(w.running) > 0:
		w.end(w.running[w.n(len(w.running), "running")])
	case len(steps) > 0:
		w.end(steps[w.n(len(steps), "step")])
	}
}

// artifact lets one come, or be reported as not built.
func (w *world) artifact() {
	revision, kind := w.anyRevision(), someKinds[w.n(3, "kind")]
	if w.n(8, "is not built") == 0 {
		_ = w.propose(FailArtifact{Revision: revision, Kind: kind, By: "ci"})
		return
	}
	_ = w.propose(ReceiveArtifact{Revision: revision, Kind: kind, Ref: "ref"})
}

// judge approves or rejects.
func (w *world) judge() {
	stages := w.state.Definition().Stages
	revision, stage := w.anyRevision(), stages[w.n(len(stages), "stage")].Name
	if w.n(4, "is rejected") == 0 {
		_ = w.propose(Reject{Revision: revision, Stage: stage, By: "ann"})
		return
	}
	_ = w.propose(Approve{Revision: revision, Stage: stage, By: []string{"ann", "bob", "eve"}[w.n(3, "who")], ID: w.id()})
}

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

// pauseOrResume lets a person pause or resume the pipeline or one of its stages.
func (w *world) pauseOrResume() {
	stage := ""
	if d := w.state.Definition(); w.n(3, "stage") > 0 {
		stage = d.Stages[w.n(len(d.Stages), "which")].Name
	}
	var c Command = PausePipeline{Stage: stage, ID: w.id(), By: "ann"}
	if w.n(3, "resume") > 0 {
		c = ResumePipeline{Stage: stage, ID: w.id(), By: "bob"}
	}
	rolling := slices.ContainsFunc(w.oracle.revisions, func(r *revision) bool { return !r.over && r.only == stage && stage != "" })
	var refused *refusal.Error
	switch err := w.propose(c); {
	case errors.As(err, &refused) && refused.Code == RollbackRunning && rolling:
	case err != nil:
		w.Fatal(err)
	}
}

// supply brings what everything waits for.
func (w *world) supply() {
	for _, r := range w.state.Registrations() {
		for _, kind := range someKinds {
			_ = w.propose(ReceiveArtifact{Revision: r.Revision, Kind: kind, Ref: "ref"})
		}
		for _, s := range w.state.Definition().Stages {
			for _, by := range []string{"ann", "bob", "eve"} {
				_ = w.propose(Approve{Revision: r.Revision, Stage: s.Name, By: by, ID: w.id()})
			}
		}
	}
}

// doAgain does something of a stage again.
func (w *world) doAgain() {
	stages := w.state.Definition().Stages
	if len(w.state.Registrations()) == 0 {
		return
	}
	stage := stages[w.n(len(stages), "stage")].Name
	broken := slices.DeleteFunc(slices.Clone(stages), func(s definition.Stage) bool { // there is not always something to repair
		return len(w.state.visits[record.StageTarget("p", s.Name)].ending.Failed) == 0
	})
	if len(broken) == 0 && w.n(2, "repair") > 0 {
		_ = w.propose(Rerun{Stage: stage, Revision: w.anyRevision(), ID: w.id()})
		return
	}
	var hosts []string
	if len(broken) > 0 {
		stage = broken[w.n(len(broken), "broken stage")].Name
	}
	if w.n(2, "a certain host") == 0 {
		hosts = []string{someHosts[w.n(len(someHosts), "host")]}
	}
	_ = w.propose(Repair{Stage: stage, Hosts: hosts, ID: w.id()})
}

// rollBack deploys an earlier revision to a stage.
func (w *world) rollBack() {
	if w.steady || len(w.state.Registrations()) == 0 || w.n(2, "really") == 0 {
		return
	}
	stages, revision := w.state.Definition().Stages, ""
	if w.n(2, "to a certain one") == 0 {
		revision = w.anyRevision()
	}
	_ = w.propose(Rollback{Stage: stages[w.n(len(stages), "stage")].Name, Revision: revision, ID: w.id()})
}

// forgetMarkers forgets what takes no work of deployments that have ended: a scheduler records
// that at once, or never.
func (w *world) forgetMarkers() {
	w.running = slices.DeleteFunc(w.running, func(s step.Step) bool { return !s.Work() && !w.state.InProgress(s.Deployment) })
}
