package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	assert.Equal(t, transcript(""), w.transcript("version-123"), "the log is")

	w.do(Define{Definition: antGateway(copied, deployed, tested), ID: w.id()})
	run("version-124")
	assert.Equal(t, transcript("\n        host-tested"), w.transcript("version-124"), "with the step introduced the log is")
}

func TestABuildByManifestRecordsWhatItMadeTogether(t *testing.T) {
	d := antGateway(copied)
	d.Stages[0].Build.Manifest = "build.yaml"
	w := newTale(t, d, antHosts)
	w.release("1")
	w.step()
	work := slices.Collect(w.state.Decide(noon, Can{}))[0]
	_, err := work.Completed(map[string]string{"x86": "x"})
	assert.ErrorContains(t, err, "made no artifact aarch64, raspbian")
	w.idle()
	want := `pipeline-started ant-gateway
  stage-started ant-gateway/build
    build-stage-received-x86-artifact
    build-stage-received-aarch64-artifact
    build-stage-received-raspbian-artifact
    stage-manifest-applied
  stage-finished-successfully ant-gateway/build
`
	got := w.transcript("1")
	assert.True(t, strings.HasPrefix(got, want), "the log begins\n%s, not\n%s", got, want)
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
		_, err := work.Completed(made)
		assert.ErrorContains(t, err, want)
	}
	events, err := work.Completed(map[string]string{"core/gcc": "sha256:1"})
	require.NoError(t, err)
	w.append(events...)
	got := w.state.Artifacts(work.Deployment)
	assert.True(t, got["core/gcc"] == "sha256:1", "its artifacts are %v", got)
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
	got := w.state.Artifacts(id)
	assert.True(t, len(got) == 2 && got["x86"] == "x86-1", "got %v", got)
	assert.Nil(t, w.state.Artifacts("another"), "another has")
}

func TestOfALongErrorItsEndIsKept(t *testing.T) {
	w := newAntGateway(t, deployed)
	e := step.Step{Event: deployed}.Failed(strings.Repeat("ä", deploylog.MaxCause)+"xthe end", "")
	w.append(deploylog.Event{Deployment: "d", Target: onBeta, Name: e.Name, Attempt: 1, Data: e.Data})
	cause := record.Read(e.Data).Error
	assert.True(t, len(cause) <= deploylog.MaxCause+len("…") && strings.HasPrefix(cause, "…ä") && strings.HasSuffix(cause, "the end"),
		"kept %d bytes, %.20q", len(cause), cause)
}

func TestAGroupWhoseHostsNobodyToldIsNotEmpty(t *testing.T) {
	w := newTale(t, antGateway(copied), map[string][]string{"ant-gateway/prod": {"antworker001"}})
	w.release("1", "x86", "aarch64", "raspbian")
	w.idle()
	want := "1 host-group/ant-gateway/beta host-group-finished-successfully: awaits-members ant-gateway/beta"
	got := texts(w.state.Explain(record.GroupTarget("ant-gateway", "beta")))
	assert.True(t, len(got) == 1 && got[0] == want, "explained with %q", got)
	w.do(SetMembers{Members: antHosts, ID: w.id()})
	w.idle()
	assert.True(t, w.happened("1", onBeta, copied) && w.happened("1", w.state.target, record.PipelineFinished),
		"it did not go on when they were told")
}
