package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// transcript is the log of the seed's section "Introducing new workflow steps",
// where afterDeployed stands for what was introduced.
func transcript(afterDeployed string) string {
	stage := func(name, host string) string {
		return `
  stage-started ant-gateway/` + name + `
    host-group-started ant-gateway/` + name + `
      host-started ` + host + `
        host-artifact-replicated
        host-deployed` + afterDeployed + `
      host-finished-successfully ` + host + `
    host-group-finished-successfully ant-gateway/` + name + `
  stage-finished-successfully ant-gateway/` + name
	}
	return `pipeline-started ant-gateway
  stage-started ant-gateway/build
    build-stage-received-x86-artifact
    build-stage-received-aarch64-artifact
    build-stage-received-raspbian-artifact
  stage-finished-successfully ant-gateway/build` + stage("beta", "antworker002") + stage("prod", "antworker001") + `
pipeline-finished-successfully ant-gateway
`
}

func TestTheLogOfTheExampleIsItsTranscript(t *testing.T) {
	w := newAntGateway(t, copied, deployed)
	run := func(revision string) {
		w.release(revision)
		w.idle()
		for _, kind := range []string{"x86", "aarch64", "raspbian"} {
			w.do(ReceiveArtifact{Revision: revision, Kind: kind, Ref: "ref"})
		}
		w.idle()
	}
	run("version-123")
	if got, want := w.transcript("version-123"), transcript(""); got != want {
		t.Errorf("the log is\n%s, not\n%s", got, want)
	}

	w.do(Define{Definition: antGateway(copied, deployed, tested), ID: w.id()})
	run("version-124")
	if got, want := w.transcript("version-124"), transcript("\n        host-tested"); got != want {
		t.Errorf("with the step introduced the log is\n%s, not\n%s", got, want)
	}
}

func TestArtifactsThatComeBeforeTheirStageStartsLetNobodyIntoIt(t *testing.T) {
	w := newAntGateway(t, copied, deployed)
	w.release("1", "x86")
	w.idle()
	w.release("2", "x86", "aarch64", "raspbian")
	w.idle()
	build := record.StageTarget("ant-gateway", "build")
	if w.happened("2", build, record.StageStarted) {
		t.Error("revision 2 is in the build stage together with revision 1")
	}
	w.do(Cancel{Revision: "1"})
	w.idle()
	if !w.happened("2", w.state.target, record.PipelineFinished) {
		t.Errorf("revision 2 did not finish: %q", texts(w.state.Explain(w.state.target)))
	}
}

func TestABuildByManifestRecordsWhatItMadeTogether(t *testing.T) {
	d := antGateway(copied)
	d.Stages[0].Build.Manifest = "build.yaml"
	w := newTale(t, d, antHosts)
	w.release("1")
	w.step()
	work := slices.Collect(w.state.Decide(noon, Can{}))[0]
	if _, err := work.Completed(map[string]string{"x86": "x"}); err == nil || !strings.Contains(err.Error(), "made no artifact aarch64, raspbian") {
		t.Errorf("a build that made too little gives %v", err)
	}
	w.idle()
	want := `pipeline-started ant-gateway
  stage-started ant-gateway/build
    build-stage-received-x86-artifact
    build-stage-received-aarch64-artifact
    build-stage-received-raspbian-artifact
    stage-manifest-applied
  stage-finished-successfully ant-gateway/build
`
	if got := w.transcript("1"); !strings.HasPrefix(got, want) {
		t.Errorf("the log begins\n%s, not\n%s", got, want)
	}
}

func TestABuildOfAGroupRecordsTheArtifactsOfItsPackages(t *testing.T) {
	d := antGateway(copied)
	d.Stages[0].Build = &definition.Build{Group: "packages.yaml", Packages: []string{"core/gcc"}, Timeout: definition.Duration(time.Hour)}
	w := newTale(t, d, antHosts)
	w.release("1")
	w.step()
	work := slices.Collect(w.state.Decide(noon, Can{}))[0]
	if work.Packages != "packages.yaml" || work.Manifest != "" || work.Timeout != time.Hour || !slices.Equal(work.Artifacts, []string{"core/gcc"}) {
		t.Fatalf("the work is %+v", work)
	}
	for want, made := range map[string]map[string]string{
		"artifact of package core/gcc": {"core/gcc": "a\nb"},
		"more than one event can name": manyArtifacts(),
	} {
		if _, err := work.Completed(made); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
	events, err := work.Completed(map[string]string{"core/gcc": "sha256:1"})
	if err != nil {
		t.Fatal(err)
	}
	w.append(events...)
	if got := w.state.Artifacts(work.Deployment); got["core/gcc"] != "sha256:1" {
		t.Errorf("its artifacts are %v", got)
	}
	w.idle()
	want := `pipeline-started ant-gateway
  stage-started ant-gateway/build
    stage-group-built
  stage-finished-successfully ant-gateway/build
`
	if got := w.transcript("1"); !strings.HasPrefix(got, want) {
		t.Errorf("the log begins\n%s, not\n%s", got, want)
	}
}

// manyArtifacts are more than fit into one event.
func manyArtifacts() map[string]string {
	made := map[string]string{}
	for i := range 20_000 {
		made[fmt.Sprintf("package-%d", i)] = strings.Repeat("x", 70)
	}
	return made
}

func TestArtifactsAreKnownByKindAsLongAsTheirDeploymentIs(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.release("1", "x86", "aarch64")
	id := w.state.Registrations()[0].Deployment
	if got := w.state.Artifacts(id); len(got) != 2 || got["x86"] != "x86-1" {
		t.Errorf("got %v", got)
	}
	if got := w.state.Artifacts("another"); got != nil {
		t.Errorf("another has %v", got)
	}
}

func TestOfALongErrorItsEndIsKept(t *testing.T) {
	w := newAntGateway(t, deployed)
	e := step.Step{Event: deployed}.Failed(strings.Repeat("ä", deploylog.MaxCause)+"xthe end", "")
	w.append(deploylog.Event{Deployment: "d", Target: onBeta, Name: e.Name, Attempt: 1, Data: e.Data})
	cause := record.Read(e.Data).Error
	if len(cause) > deploylog.MaxCause+len("…") || !strings.HasPrefix(cause, "…ä") || !strings.HasSuffix(cause, "the end") {
		t.Errorf("kept %d bytes, %.20q", len(cause), cause)
	}
}

func TestAGroupWhoseHostsNobodyToldIsNotEmpty(t *testing.T) {
	w := newTale(t, antGateway(copied), map[string][]string{"ant-gateway/prod": {"antworker001"}})
	w.release("1", "x86", "aarch64", "raspbian")
	w.idle()
	want := "1 host-group/ant-gateway/beta host-group-finished-successfully: awaits-members ant-gateway/beta"
	if got := texts(w.state.Explain(record.GroupTarget("ant-gateway", "beta"))); len(got) != 1 || got[0] != want {
		t.Errorf("explained with %q", got)
	}
	w.do(SetMembers{Members: antHosts, ID: w.id()})
	w.idle()
	if !w.happened("1", onBeta, copied) || !w.happened("1", w.state.target, record.PipelineFinished) {
		t.Error("it did not go on when they were told")
	}
}

// A job that is put before production while what comes before it is failing
// must not run: it waits for what it comes after, as production did.
func TestConcourse3115(t *testing.T) {
	w := newAntGateway(t, deployed)
	w.fails[string(onBeta)+" "+deployed] = "exit code 1"
	w.release("1", "x86", "aarch64", "raspbian")
	w.until("1", onBeta, deployed+"-failed") // beta is failing, and has not failed yet

	d := antGateway(deployed)
	d.Stages = append(d.Stages[:2:2], definition.Stage{Name: "smoke", After: []string{"beta"}, Run: &definition.Run{Manifest: "smoke.yaml"}}, d.Stages[2])
	d.Stages[3].After = []string{"smoke"}
	w.do(Define{Definition: d, ID: w.id()})
	w.idle()
	smoke := record.StageTarget("ant-gateway", "smoke")
	for _, e := range w.log {
		if e.Target == smoke || e.Target == prod || e.Target == onProd {
			t.Errorf("%s of %s happened behind a stage that failed", e.Name, e.Target)
		}
	}
	if !w.happened("1", w.state.target, record.PipelineFailed) {
		t.Error("the pipeline has not failed")
	}

	delete(w.fails, string(onBeta)+" "+deployed)
	w.do(Retry{Revision: "1"})
	w.idle()
	if a, b, c := w.seq("1", beta, record.StageFinished), w.seq("1", smoke, record.StageStarted), w.seq("1", prod, record.StageStarted); a == 0 || b < a || c < b {
		t.Errorf("beta finished with event %d, smoke started with %d, prod with %d", a, b, c)
	}
}
