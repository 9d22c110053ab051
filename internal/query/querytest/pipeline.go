package querytest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// Stages is how many the pipeline has.
const Stages = 20

// gateway is a pipeline whose log is being written.
type gateway struct {
	*journal
	state  *pipeline.State
	stages map[string]int
	hosts  int
}

// newGateway is one that is defined and has its hosts.
func newGateway(j *journal, hosts int) *gateway {
	g := &gateway{journal: j, state: pipeline.New(Pipeline), stages: map[string]int{}, hosts: hosts}
	j.apply = g.state.Apply
	d := Definition()
	members := map[string][]string{}
	for i, s := range d.Stages {
		g.stages[s.Name] = i
		if s.Deploy != nil {
			members[s.Name] = names(s.Name, hosts)
		}
	}
	g.do(pipeline.Define{Definition: d, ID: g.id(), By: "ada"})
	g.do(pipeline.SetMembers{Members: members, ID: g.id(), By: "ada"})
	return g
}

// Definition is that of the pipeline: a build, seventeen waves of which two go side by side
// with their neighbours, and an approval before the sixth and the twelfth wave.
func Definition() *definition.Definition {
	d := &definition.Definition{Name: Pipeline, Batches: []definition.Batch{{From: "wave06", To: "wave09"}}}
	add := func(s definition.Stage, after ...string) string {
		s.After = append([]string{}, after...)
		d.Stages = append(d.Stages, s)
		return s.Name
	}
	last := []string{add(definition.Stage{Name: "build", Build: &definition.Build{Artifacts: []string{"x86"}}})}
	for i := 1; i <= 17; i++ {
		if i == 6 || i == 12 {
			last = []string{add(definition.Stage{Name: fmt.Sprintf("approve-wave%02d", i), Approval: &definition.Approval{}}, last...)}
		}
		name := fmt.Sprintf("wave%02d", i)
		wave := definition.Stage{Name: name, Deploy: &definition.Deploy{
			HostGroups: []definition.HostGroup{{Name: name, Hosts: "attribute:wave == " + name, MaxFailed: budget.Budget{Count: 5}}},
			Steps:      []definition.HostStep{{Event: "host-deployed", Manifest: "deploy.yaml", Retries: 2}},
		}}
		switch i {
		case 4, 14: // beside the one after it
			add(wave, last...)
			continue
		case 6, 16: // after both
			if before := d.Stages[len(d.Stages)-1]; before.Approval == nil {
				last = append(last, d.Stages[len(d.Stages)-2].Name)
			}
		}
		last = []string{add(wave, last...)}
	}
	return d
}

func (g *gateway) do(c pipeline.Command) { g.record(g.state.Propose(c, g.now)) }

// reach is how far a revision gets.
type reach struct {
	stage  string
	done   int                      // hosts of that stage; the rest is under way
	fails  map[string][]int         // stage → hosts, from 1
	causes func(host string) string // nil is a plain one
}

func (g *gateway) release(n int) string {
	revision := fmt.Sprintf("r%d", n)
	g.do(pipeline.Release{Revision: revision, ID: g.id(), By: []string{"ada", "bob", "ci"}[n%3], Carries: record.Files{"deploy.yaml": strings.Repeat("0a", 32)}})
	return revision
}

// received has the artifact of a revision received.
func (g *gateway) received(revision string) {
	g.do(pipeline.ReceiveArtifact{Revision: revision, Kind: "x86", Ref: "registry/gateway:" + revision, By: "ci"})
}

// approved approves a revision where it waits for that, and has come so far by right.
func (g *gateway) approved(revision string, r reach) (done bool) {
	for _, stage := range []string{"approve-wave06", "approve-wave12"} {
		if r.stage != "" && g.stages[r.stage] <= g.stages[stage] {
			continue
		}
		if events, err := g.state.Propose(pipeline.Approve{Stage: stage, Revision: revision, By: "ada"}, g.now); err == nil && len(events) > 0 {
			g.record(events, nil)
			done = true
		}
	}
	return done
}

// carry does what may be done for a revision as far as it is to get.
func (g *gateway) carry(revision string, r reach) {
	for {
		var steps []step.Step
		for step := range g.state.Decide(g.now, pipeline.Can{}) {
			if step.Revision == revision && g.within(r, step) {
				steps = append(steps, step)
			}
		}
		if len(steps) == 0 && !g.approved(revision, r) {
			return
		}
		for _, step := range steps {
			if step.Work() && slices.ContainsFunc(r.fails[step.Stage], func(n int) bool { return step.Host == hostName(step.Group, n) }) {
				cause := "exit code 1"
				if r.causes != nil {
					cause = r.causes(step.Host)
				}
				g.record([]deploylog.Event{step.Failed(cause, "")}, nil)
				continue
			}
			g.record(step.Completed(nil))
		}
	}
}

func hostName(group string, n int) string { return fmt.Sprintf("%s-h%d", group, n) }

// within reports whether a step is not beyond what is reached.
func (g *gateway) within(r reach, step step.Step) bool {
	at, to := g.stages[step.Stage], g.stages[r.stage]
	switch {
	case step.Stage == "":
		return r.stage == "" || strings.HasSuffix(step.Event, "-failed")
	case r.stage == "" || at < to:
		return true
	case at > to:
		return false
	}
	_, number, isHost := strings.Cut(step.Host, "-h")
	n := 0
	_, _ = fmt.Sscan(number, &n)
	return !isHost || n <= r.done || step.Event == "host-started"
}

// deploy releases revisions, and has the last of them be everywhere: under way, failed,
// waiting for people, for each other, and for a pause to end.
func (g *gateway) deploy(revisions int) {
	for n := 1; n <= revisions-12; n++ {
		r := g.release(n)
		if n%9 == 4 {
			g.carry(r, reach{stage: "build"})
			g.do(pipeline.Cancel{Revision: r, By: "ada", Reason: Hostile})
			continue
		}
		g.received(r)
		g.carry(r, reach{})
	}
	all, some := g.hosts, g.hosts*2/5
	three := map[string][]int{"wave01": {7, 9, 31}, "wave15": {1}}
	last := []reach{
		{stage: "wave15", done: some, fails: three},
		{stage: "approve-wave12"},
		{stage: "wave17", done: all, fails: map[string][]int{"wave08": {1, 2, 3, 4, 5, 6}}, causes: func(host string) string { return strings.Repeat(Long, 30) + host + "\n" + Hostile }},
		{stage: "wave17"}, // kept out of wave08
		{stage: "wave06", done: some},
		{stage: "wave17"}, // kept out of the batch
		{stage: "wave05", done: 3},
		{stage: "wave03", done: all},
		{stage: "wave02", done: some, fails: three},
		{stage: "wave01", done: some, fails: map[string][]int{"wave01": {2, 5}}},
		{stage: "build"},
		{stage: "build"},
	}
	for i, r := range last {
		revision := g.release(revisions - 11 + i)
		if r.stage != "build" {
			g.received(revision)
		}
		g.carry(revision, r)
	}
	g.do(pipeline.PausePipeline{Stage: "wave04", ID: g.id(), By: "bob", Reason: Hostile})
	for step := range g.state.Decide(g.now, pipeline.Can{}) {
		if step.Host == hostName("wave05", 4) {
			g.record([]deploylog.Event{step.TryFailed(g.id(), "", "", "connection refused\n"+Hostile)}, nil)
			break
		}
	}
}
