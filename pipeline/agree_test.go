package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

func TestTheMachineAndTheAlgorithmOfTheSeedPickTheSameSteps(t *testing.T) {
	cases(t, 10_000, func(t *rapid.T) {
		w := newWorld(t)
		w.define(w.pipeline())
		w.setMembers()
		for range 10 + rapid.IntRange(0, 60).Draw(t, "length") {
			if w.n(4, "time passes") == 0 { // and the clock may be set back
				w.now = w.now.Add(time.Duration(w.n(100, "seconds")-20) * time.Second)
			}
			w.oracle.now = w.now
			steps := slices.Collect(w.state.Decide(w.now, Can{}))
			if got, want := names(steps), w.oracle.names(); !slices.Equal(got, want) {
				t.Fatalf("the machine picks %q,\nthe seed %q, after\n%s", got, want, w.story())
			}
			w.act(steps)
		}
	})
}

// Revision v1 comes into stage new when the host group that it is being deployed to is
// moved there, so no start of the stage is recorded, and fails in it. Then the stage
// becomes something without host groups: its failure is all that is left of it.
func TestARevisionIsInTheStageThatItFailedInWhateverBecomesOfIt(t *testing.T) {
	gate := definition.Stage{Name: "gate", Approval: &definition.Approval{}}
	fail := func(w *tale) { w.complete("v1", w.state.target, record.PipelineFailed) }
	for _, c := range []struct {
		name    string
		becomes definition.Definition
		then    func(*tale)
		mayDo   []string
	}{
		{
			name:    "the next revision does not enter it",
			becomes: definition.Definition{Stages: []definition.Stage{gate, run("new")}},
			mayDo:   []string{"v1 pipeline-failed pipeline"},
		},
		{
			name:    "a stage that is put before it is passed, and the next revision enters that",
			becomes: definition.Definition{Stages: []definition.Stage{gate, run("new", "gate")}},
			mayDo:   []string{"v1 pipeline-failed pipeline", "v2 stage-started stage/gate"},
		},
		{
			name:    "a batch that ends with it is held",
			becomes: definition.Definition{Stages: []definition.Stage{gate, run("new", "gate")}, Batches: []definition.Batch{{From: "gate", To: "new"}}},
			mayDo:   []string{"v1 pipeline-failed pipeline"},
		},
		{
			name:    "the next revision enters it when the deployment has failed and it is resumed",
			becomes: definition.Definition{Stages: []definition.Stage{gate, run("new")}},
			then:    func(w *tale) { fail(w); w.do(ResumePipeline{Stage: "new", ID: w.id()}) },
			mayDo:   []string{"v2 stage-started stage/gate", "v2 stage-started stage/new"},
		},
		{
			name:    "a retry begins with its start",
			becomes: definition.Definition{Stages: []definition.Stage{gate, run("new")}},
			then:    func(w *tale) { fail(w); w.do(Retry{Revision: "v1"}) },
			mayDo:   []string{"v1 stage-started stage/new"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newTale(t, &definition.Definition{Name: "p", Stages: []definition.Stage{gate, deployTo("old", nil, "g", deployed)}}, map[string][]string{"g": {"h"}})
			host := record.HostTarget("p", "g", "h")
			w.fails[string(host)+" "+deployed] = "disk full"
			w.release("v1")
			w.until("v1", host, record.HostStarted)
			w.do(Define{ID: "moved", Definition: &definition.Definition{Name: "p", Stages: []definition.Stage{gate, deployTo("new", nil, "g", deployed)}}})
			w.until("v1", stageOf("new"), record.StageFailed)
			w.release("v2")
			c.becomes.Name = "p"
			w.do(Define{ID: "becomes", Definition: &c.becomes})
			if c.then != nil {
				c.then(w)
			}
			w.mayDo(c.mayDo...)
			w.seedPicksTheSame()
		})
	}
}

// seedPicksTheSame wants the algorithm of the seed to pick what the machine does.
func (w *tale) seedPicksTheSame() {
	w.Helper()
	oracle := newNaive(w.state.name)
	for _, e := range w.log {
		oracle.apply(e)
	}
	if got, want := names(slices.Collect(w.state.Decide(noon, Can{}))), oracle.names(); !slices.Equal(got, want) {
		w.Errorf("the machine picks %q,\nthe seed %q, after\n%s", got, want, strings.Join(w.story(), "\n"))
	}
}

func names(steps []step.Step) []string {
	var list []string
	for _, s := range steps {
		list = append(list, s.Deployment+" "+string(s.Target)+" "+s.Event)
	}
	slices.Sort(list)
	return list
}

func (n *naive) names() []string {
	var list []string
	for id, entries := range n.decide() {
		for _, e := range entries {
			list = append(list, id+" "+e.target+" "+e.event)
		}
	}
	slices.Sort(list)
	return list
}

func (w *world) story() string {
	var b strings.Builder
	for _, e := range w.log {
		fmt.Fprintf(&b, "%3d %s %s %s %d", e.Seq, e.Deployment, e.Target, e.Name, e.Attempt)
		if e.Name == record.PipelineDefined || e.Name == record.MembersChanged || e.Name == record.MembersHeld || e.Name == record.StepsBegun || e.Name == record.StepsEnded {
			fmt.Fprintf(&b, " %s", e.Data)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
