package pipeline

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// checkSkips finds an end of a host, host group or stage that would not tell which steps
// of the present definition it comes without, as the log alone shows.
func (w *world) checkSkips() string {
	for step := range w.state.Decide(noon, Can{}) {
		steps, in := w.ended(step)
		want := record.Skips{Nothing: len(in) > 0}
		for _, event := range steps {
			if slices.ContainsFunc(in, func(host string) bool { return !w.did(step.Deployment, host, event) }) {
				want.Steps = append(want.Steps, event)
			}
		}
		for _, e := range w.log {
			marker := e.Name == record.HostStarted || e.Name == record.HostFinished || record.IsFailure(e.Name)
			if e.Deployment == step.Deployment && slices.Contains(in, string(e.Target)) && !marker {
				want.Nothing = false
			}
		}
		want.Nothing = want.Nothing && len(want.Steps) > 0
		if !reflect.DeepEqual(step.Skipped, want) {
			return fmt.Sprintf("%s of %s would tell that it skipped %v, not %v", step.Event, step.Target, step.Skipped, want)
		}
	}
	return ""
}

// ended are the hosts that have finished, with their steps, in what a step ends.
func (w *world) ended(step step.Step) (steps, hosts []string) {
	for _, s := range w.oracle.definition.Stages {
		if s.Name != step.Stage || s.Deploy == nil {
			continue
		}
		steps = eventsOf(s.Deploy)
		for _, g := range s.Deploy.HostGroups {
			for _, h := range w.oracle.members[g.Name] {
				host := "host/p/" + g.Name + "/" + h
				if (step.Group == "" || step.Group == g.Name) && w.did(step.Deployment, host, record.HostFinished) {
					hosts = append(hosts, host)
				}
			}
		}
	}
	switch step.Event {
	case record.HostFinished:
		return steps, []string{string(step.Target)}
	case record.GroupFinished, record.StageFinished:
		return steps, hosts
	default:
		return nil, nil
	}
}

// did reports whether something happened to a host.
func (w *world) did(deployment, host, event string) bool {
	return slices.ContainsFunc(w.log, func(e deploylog.Event) bool {
		return e.Deployment == deployment && string(e.Target) == host && e.Name == event
	})
}

// An event that gets another name in mid-rollout is another step: the ends of what went
// without it tell.
func TestTheEndsTellWhatARenamedStepWasSkippedFor(t *testing.T) {
	const restarted, renamed = "host-restarted", "host-reloaded"
	w := newAntGateway(t, deployed, restarted)
	w.release("1", "x86", "aarch64", "raspbian")
	w.until("1", onBeta, record.HostFinished)
	d := antGateway(deployed, renamed)
	for i := range d.Stages {
		if deploy := d.Stages[i].Deploy; deploy != nil {
			deploy.Steps[1].Manifest = restarted + ".yaml"
		}
	}
	want := []deployment.Rename{{Stage: "beta", From: restarted, To: renamed, Manifest: restarted + ".yaml"}, {Stage: "prod", From: restarted, To: renamed, Manifest: restarted + ".yaml"}}
	if got := deployment.Renames(w.state.Definition(), d); !slices.Equal(got, want) {
		t.Errorf("renamed are %v", got)
	}
	w.do(Define{Definition: d, ID: w.id()})
	w.release("2", "x86", "aarch64", "raspbian")
	w.idle()
	skips := func(revision string, target deploylog.Target, event string) string {
		return fmt.Sprint(record.SkipsOf(w.log[w.seq(revision, target, event)-1]))
	}
	for at, want := range map[deploylog.Target]string{
		onBeta: "{[] false}", beta: "{[host-reloaded] false}", onProd: "{[host-reloaded] false}", prod: "{[host-reloaded] false}",
		record.GroupTarget("ant-gateway", "ant-gateway/prod"): "{[host-reloaded] false}",
	} {
		if got := skips("1", at, at.Succeeded()); got != want {
			t.Errorf("the end of %s tells %s, want %s", at, got, want)
		}
		if got := skips("2", at, at.Succeeded()); got != "{[] false}" {
			t.Errorf("the end of revision 2 at %s tells %s", at, got)
		}
	}
}

// Where nothing at all was done, the ends tell that.
func TestTheEndsTellWhereNothingWasDone(t *testing.T) {
	w := newTale(t, &definition.Definition{Name: "p", Stages: []definition.Stage{deployTo("a", nil, "g", deployed)}}, map[string][]string{"g": {"h1", "h2"}})
	w.release("1")
	w.until("1", record.HostTarget("p", "g", "h1"), record.HostFinished)
	w.do(Define{Definition: &definition.Definition{Name: "p", Stages: []definition.Stage{deployTo("a", nil, "g", tested)}}, ID: w.id()})
	w.idle()
	end := w.log[w.seq("1", record.HostTarget("p", "g", "h2"), record.HostFinished)-1]
	if got := record.SkipsOf(end); !got.Nothing || !slices.Equal(got.Steps, []string{tested}) {
		t.Errorf("it tells %v", got)
	}
	if got := record.SkipsOf(w.log[w.seq("1", stageOf("a"), record.StageFinished)-1]); got.Nothing {
		t.Errorf("the stage tells %v, and h1 was deployed", got)
	}
}
