package pipeline

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Where revisions come to the ends of their stages, with hosts that fail on the way, what is
// done again of them is picked as the seed does.
func TestWhatIsDoneAgainIsPickedAsTheSeedDoes(t *testing.T) {
	cases(t, 2000, func(t *rapid.T) {
		w := newWorld(t)
		d := w.pipeline()
		members := map[string][]string{}
		for _, g := range d.Groups() {
			g.MaxFailed = budget.Budget{Count: 1 + w.n(2, "may fail")}
			members[g.Name] = someHosts
		}
		w.define(d)
		if err := w.propose(SetMembers{Members: members, ID: w.id()}); err != nil {
			t.Fatal(err)
		}
		w.release(0)
		for range 20 + w.n(60, "length") {
			w.oracle.now = w.now
			steps := slices.Collect(w.state.Decide(w.now, Can{}))
			if got, want := names(steps), w.oracle.names(); !slices.Equal(got, want) {
				t.Fatalf("the machine picks %q,\nthe seed %q, after\n%s", got, want, w.story())
			}
			switch {
			case w.n(6, "again") == 0:
				w.doAgain()
			case w.n(12, "something else") == 0:
				w.act(steps)
			case len(steps) > 0:
				w.end(steps[w.n(len(steps), "step")])
			default:
				w.supply()
			}
		}
	})
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
