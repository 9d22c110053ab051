package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
)

// What may be done, one line each: REVISION EVENT TARGET, without the pipeline.
func (w *tale) doable() (lines []string) {
	for s := range w.state.Decide(noon, Can{}) {
		lines = append(lines, s.Revision+" "+s.Event+" "+strings.Replace(string(s.Target), "/"+w.state.name, "", 1))
	}
	return lines
}

func (w *tale) mayDo(want ...string) {
	w.Helper()
	if got := w.doable(); !slices.Equal(got, want) {
		w.Errorf("it may do\n%s, not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// complete does a step that may be done.
func (w *tale) complete(revision string, t deploylog.Target, event string) {
	w.Helper()
	for s := range w.state.Decide(noon, Can{}) {
		if s.Revision == revision && s.Target == t && s.Event == event {
			events, err := s.Completed(nil)
			if err != nil {
				w.Fatal(err)
			}
			w.append(events...)
			return
		}
	}
	w.Fatalf("%s of %s cannot be done, but %q", event, t, w.doable())
}

func run(name string, after ...string) definition.Stage {
	return definition.Stage{Name: name, After: after, Run: &definition.Run{Manifest: name + ".yaml"}}
}

func stageOf(stage string) deploylog.Target { return record.StageTarget("p", stage) }

// The example of the seed's section "Coalescing steps".
func TestAJoinWaitsForEveryPathAlsoForOneThatGetsLonger(t *testing.T) {
	d := &definition.Definition{Name: "p", Stages: []definition.Stage{run("one"), run("three", "one"), run("two", "one", "three")}}
	w := newTale(t, d, nil)
	w.release("v1")
	w.until("v1", stageOf("one"), record.StageFinished)
	w.mayDo("v1 stage-started stage/three")
	w.until("v1", stageOf("three"), record.StageApplied)
	w.do(Define{ID: "d", Definition: &definition.Definition{Name: "p", Stages: []definition.Stage{run("one"), run("three", "one"), run("four", "three"), run("two", "one", "four")}}})
	w.complete("v1", stageOf("three"), record.StageFinished)
	w.mayDo("v1 stage-started stage/four")
	w.until("v1", stageOf("four"), record.StageFinished)
	w.mayDo("v1 stage-started stage/two")
}

func TestParallelStagesRunAtOnceAndTheirFollowerOnce(t *testing.T) {
	d := &definition.Definition{Name: "p", Stages: []definition.Stage{run("build"), run("left", "build"), run("right", "build"), run("last", "left", "right")}}
	w := newTale(t, d, nil)
	w.release("v1")
	w.until("v1", stageOf("build"), record.StageFinished)
	w.mayDo("v1 stage-started stage/left", "v1 stage-started stage/right")
	w.until("v1", stageOf("left"), record.StageFinished)
	w.mayDo("v1 stage-started stage/right")
	w.until("v1", stageOf("right"), record.StageFinished)
	w.mayDo("v1 stage-started stage/last")
}

// Batches are like parentheses: (deploy, test) belong together, so that nothing
// is deployed while the revision before it is still being tested.
func TestWhileTestHasOneRevisionDeployDoesNotTakeTheNext(t *testing.T) {
	d := &definition.Definition{Name: "p", Stages: []definition.Stage{run("deploy"), run("test", "deploy")}, Batches: []definition.Batch{{From: "deploy", To: "test"}}}
	w := newTale(t, d, nil)
	w.release("v1")
	w.release("v2")
	w.until("v1", stageOf("test"), record.StageStarted)
	w.mayDo("v1 stage-manifest-applied stage/test")
	w.complete("v1", stageOf("test"), record.StageApplied)
	w.complete("v1", stageOf("test"), record.StageFinished)
	w.mayDo("v1 pipeline-finished-successfully pipeline", "v2 stage-started stage/deploy")
}

func TestBatchesThatOverlapAndNest(t *testing.T) {
	d := &definition.Definition{
		Name: "p", Stages: []definition.Stage{run("a"), run("b", "a"), run("c", "b"), run("d", "c"), run("e", "d")},
		Batches: []definition.Batch{{From: "a", To: "c"}, {From: "b", To: "d"}, {From: "b", To: "c"}},
	}
	w := newTale(t, d, nil)
	for _, revision := range []string{"v1", "v2", "v3"} {
		w.release(revision)
	}
	w.until("v1", stageOf("c"), record.StageStarted)
	w.mayDo("v1 stage-manifest-applied stage/c")
	w.complete("v1", stageOf("c"), record.StageApplied)
	w.complete("v1", stageOf("c"), record.StageFinished)
	w.mayDo("v1 stage-started stage/d", "v2 stage-started stage/a") // a to c is free, b to d is not
	w.complete("v2", stageOf("a"), record.StageStarted)
	w.complete("v2", stageOf("a"), record.StageApplied)
	w.complete("v2", stageOf("a"), record.StageFinished)
	w.mayDo("v1 stage-started stage/d")
	w.until("v1", stageOf("d"), record.StageFinished)
	w.mayDo("v1 stage-started stage/e", "v2 stage-started stage/b")
}

// Whoever failed or was cancelled lets go of its batches; the oldest of those
// who wait takes them.
func TestABatchIsLetGoByWhatEnds(t *testing.T) {
	d := &definition.Definition{Name: "p", Stages: []definition.Stage{run("a"), run("b", "a")}, Batches: []definition.Batch{{From: "a", To: "b"}}}
	w := newTale(t, d, nil)
	for _, revision := range []string{"v1", "v2", "v3"} {
		w.release(revision)
	}
	w.complete("v1", stageOf("a"), record.StageStarted)
	w.mayDo("v1 stage-manifest-applied stage/a")
	w.do(Cancel{Revision: "v1"})
	w.mayDo("v2 stage-started stage/a")
}

func TestAGroupFailsBeyondItsBudget(t *testing.T) {
	for _, c := range []struct {
		budget string
		hosts  int
		fail   int
		ends   deployment.Status
	}{
		{"0", 3, 0, deployment.Finished}, {"0", 3, 1, deployment.Failed}, {"1", 3, 1, deployment.Finished}, {"1", 3, 2, deployment.Failed},
		{"30%", 10, 3, deployment.Finished}, {"30%", 10, 4, deployment.Failed}, {"10%", 9, 1, deployment.Failed}, {"100%", 3, 3, deployment.Finished},
	} {
		t.Run(fmt.Sprintf("%d of %d with %s", c.fail, c.hosts, c.budget), func(t *testing.T) {
			budget, err := budget.Parse(c.budget)
			if err != nil || budget.String() != c.budget {
				t.Fatalf("%v %v", budget, err)
			}
			d := &definition.Definition{Name: "p", Stages: []definition.Stage{deployTo("s", nil, "g", deployed, tested)}}
			d.Stages[0].Deploy.HostGroups[0].MaxFailed = budget
			var hosts []string
			for i := range c.hosts {
				hosts = append(hosts, fmt.Sprint("h", i))
			}
			w := newTale(t, d, map[string][]string{"g": hosts})
			for i := range c.fail {
				w.fails[fmt.Sprintf("host/p/g/h%d %s", i, tested)] = "exit code 1"
			}
			w.release("v1")
			w.idle()
			r := w.state.Registrations()[0]
			if r.Status != c.ends {
				t.Errorf("it ended %s:\n%s", r.Status, strings.Join(w.story(), "\n"))
			}
			if r.Status == deployment.Failed {
				want := fmt.Sprintf("stage s failed: host group g failed: %d of %d hosts failed, %d may: h0: host-tested failed: exit code 1", c.fail, c.hosts, c.fail-1)
				if got := record.Read(w.log[len(w.log)-1].Data).Error; got != want {
					t.Errorf("because of %s", got)
				}
			}
		})
	}
}

func TestARetryGoesOnWhereItFailed(t *testing.T) {
	d := antGateway(copied, deployed)
	d.Stages[2].Deploy.HostGroups[0].AllowEmpty = true
	w := newTale(t, d, map[string][]string{"ant-gateway/beta": {"one", "two"}, "ant-gateway/prod": nil})
	two := record.HostTarget("ant-gateway", "ant-gateway/beta", "two")
	w.fails[string(two)+" "+deployed] = "disk full"
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	delete(w.fails, string(two)+" "+deployed)
	before := len(w.log)
	w.do(Retry{Revision: "v1", By: "ann"})
	w.idle()
	var did []string
	for _, e := range w.log[before:] {
		did = append(did, fmt.Sprintf("%s %d", e.Name, e.Attempt))
	}
	want := []string{
		"pipeline-retried 2", "host-deployed 2", "host-finished-successfully 2", "host-group-finished-successfully 2", "stage-finished-successfully 2",
		"stage-started 2", "host-group-started 2", "host-group-finished-successfully 2", "stage-finished-successfully 2", "pipeline-finished-successfully 2",
	}
	if !slices.Equal(did, want) {
		t.Errorf("it did %q", did)
	}
}

func TestAfterACancelNothingBeginsAndWhatRunsIsRecorded(t *testing.T) {
	w := newAntGateway(t, copied, deployed)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.until("v1", onBeta, record.HostStarted)
	running := slices.Collect(w.state.Decide(noon, Can{}))[0]
	w.do(Cancel{Revision: "v1", By: "ann", Reason: "wrong branch"})
	w.mayDo()
	events, err := running.Completed(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.append(events...)
	w.mayDo()
	w.do(Retry{Revision: "v1"})
	w.mayDo("v1 host-deployed host/beta/antworker002")
}

func TestHostsJoinAndLeaveAGroupAtAnyMoment(t *testing.T) {
	w := newAntGateway(t, deployed)
	members := func(hosts ...string) {
		w.do(SetMembers{Members: map[string][]string{"ant-gateway/beta": hosts}, ID: w.id()})
	}
	w.release("v1", "x86", "aarch64", "raspbian")
	w.until("v1", onBeta, record.HostStarted)
	members("antworker002", "joins")
	w.mayDo("v1 host-deployed host/beta/antworker002", "v1 host-started host/beta/joins")
	members("joins")
	w.mayDo("v1 host-started host/beta/joins")
	members("joins", "antworker002", "antworker002")
	w.mayDo("v1 host-started host/beta/joins", "v1 host-deployed host/beta/antworker002")
	w.until("v1", record.GroupTarget("ant-gateway", "ant-gateway/beta"), record.GroupFinished)
	members("joins", "antworker002", "late")
	w.mayDo("v1 stage-finished-successfully stage/beta")
	w.release("v2", "x86", "aarch64", "raspbian")
	w.idle()
	if !w.happened("v2", record.HostTarget("ant-gateway", "beta", "late"), deployed) {
		t.Error("v2 was not deployed to the host that came late")
	}
}

func TestAStageThatIsInsertedBehindARevisionIsPassedBy(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.until("v1", prod, record.StageStarted)
	d := antGateway(deployed)
	d.Stages = slices.Insert(d.Stages, 2, definition.Stage{Name: "soak", After: []string{"beta"}, Run: &definition.Run{Manifest: "soak.yaml"}})
	d.Stages[3].After = []string{"soak"}
	w.do(Define{Definition: d, ID: "d"})
	w.release("v2", "x86", "aarch64", "raspbian")
	w.idle()
	soak := record.StageTarget("ant-gateway", "soak")
	if w.happened("v1", soak, record.StageStarted) || !w.happened("v2", soak, record.StageFinished) {
		t.Errorf("soak was done wrongly:\n%s", strings.Join(w.story(), "\n"))
	}
	w.do(Define{Definition: antGateway(deployed), ID: "e"})
	w.release("v3", "x86", "aarch64", "raspbian")
	w.idle()
	if !w.happened("v3", w.state.target, record.PipelineFinished) {
		t.Error("without the stage it does not go on")
	}
}

func TestAHostThatLeftWhileItWasBusyGoesByANewStepToo(t *testing.T) {
	w := newTale(t, antGateway(deployed), map[string][]string{"ant-gateway/beta": {"antworker002", "other"}, "ant-gateway/prod": nil})
	w.release("v1", "x86", "aarch64", "raspbian")
	w.until("v1", onBeta, record.HostStarted)
	busy := slices.Collect(w.state.Decide(noon, Can{}))[0]
	w.do(Define{Definition: antGateway(tested, deployed), ID: "d"})
	w.do(SetMembers{Members: map[string][]string{"ant-gateway/beta": {"other"}}, ID: "m"})
	w.complete("v1", record.HostTarget("ant-gateway", "beta", "other"), record.HostStarted)
	w.mayDo("v1 host-tested host/beta/other")
	events, err := busy.Completed(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.append(events...)
	w.mayDo("v1 host-deployed host/beta/other")
}

// A log may hold what no version of this program writes: it is taken as it is.
func TestHistoryIsNeverRefused(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.release("v1", "x86", "aarch64", "raspbian")
	strange := []deploylog.Event{
		{Target: "stage/ant-gateway/prod", Name: record.StageStarted, Deployment: "id-3"},
		{Target: "pipeline/ant-gateway", Name: record.PipelineDefined, Data: []byte(`{"definition":{}}`)},
		{Target: "pipeline/ant-gateway", Name: record.PipelineDefined, Data: []byte(`[1`)},
		{Target: "pipeline/ant-gateway", Name: record.PipelineDefined, Data: []byte(`{"definition":{"stages":[{"name":"a","after":["z"]},{"name":"a"}],"batches":[{"from":"q","to":"a"}]}}`)},
		{Target: "host-group/ant-gateway/beta", Name: record.MembersChanged, Data: []byte(`{"hosts":5}`)},
		{Target: "host-group/nobody/knows", Name: record.MembersChanged},
		{Target: "host-group/nobody/knows", Name: record.MembersHeld},
		{Target: "host-group/ant-gateway/prod", Name: record.MembersHeld, Data: []byte(`{"hosts":{}}`)},
		{Target: "pipeline/ant-gateway", Name: record.PipelineRetried, Deployment: "nobody"},
		{Target: "pipeline/ant-gateway", Name: record.PipelineCancelled, Deployment: "nobody"},
		{Target: "pipeline/ant-gateway", Name: record.PipelineStarted, Deployment: "id-3"},
		{Target: "stage/ant-gateway/gone", Name: record.StageFinished, Deployment: "id-3"},
		{Target: "host/x", Name: deployed, Deployment: "id-3"},
		{Target: "resource/db", Name: "resource-started", Deployment: "elsewhere"},
	}
	for _, e := range strange {
		e.Attempt, e.Seq = 1, w.state.Head()+1
		w.state.Apply(e)
		if problem := w.state.drift(); problem != "" {
			t.Errorf("after %s of %s: %s", e.Name, e.Target, problem)
		}
		w.state.Status()
		w.state.Explain(w.state.target)
	}
}
