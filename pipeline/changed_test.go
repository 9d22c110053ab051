package pipeline

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
)

// deploying is the example of the seed whose step host-deployed has a manifest in both
// stages, with what a revision or definition of that time carries.
func deploying(manifest, texts string) (*definition.Definition, record.Files) {
	d := antGateway(deployed)
	for i := range d.Stages {
		if deploy := d.Stages[i].Deploy; deploy != nil {
			deploy.Steps[0].Manifest = manifest
		}
	}
	return d, record.Files{manifest: texts, "lib/x": texts}
}

func (w *tale) releaseWith(revision string, carries record.Files) {
	w.Helper()
	w.do(Release{Revision: revision, ID: w.id(), Carries: carries})
	for _, kind := range []string{"x86", "aarch64", "raspbian"} {
		w.do(ReceiveArtifact{Revision: revision, Kind: kind, Ref: kind})
	}
}

// The manifest of a stage is what it was when a revision was released, while retries are
// those of the present.
func TestAChangedManifestOfAStageIsOfLaterRevisions(t *testing.T) {
	define := func(manifest string, retries int) *definition.Definition {
		two := run("two", "one")
		two.Run.Manifest, two.Run.Retries = manifest, retries
		return &definition.Definition{Name: "p", Stages: []definition.Stage{run("one"), two}}
	}
	w := newTale(t, define("two.yaml", 0), nil)
	w.do(Release{Revision: "v1", ID: w.id(), Carries: record.Files{"one.yaml": "1", "two.yaml": "1"}})
	w.until("v1", stageOf("two"), record.StageStarted)
	w.do(Define{ID: w.id(), Definition: define("other.yaml", 3), Carries: record.Files{"one.yaml": "2", "other.yaml": "2"}})
	w.wantFiles("two.yaml", record.Files{"one.yaml": "1", "two.yaml": "1"})
	for s := range w.state.Decide(noon, Can{}) {
		assert.Equal(t, 3, s.Retries)
	}
}

func TestARevisionAdoptsNothingThatItHasAlready(t *testing.T) {
	d, carries := deploying("deploy.yaml", "1")
	w := newTale(t, d, antHosts)
	w.releaseWith("1", carries)
	_, files := deploying("deploy.yaml", "2")
	w.do(Define{ID: w.id(), Definition: d, Carries: files, Adopt: []string{"1"}})
	assert.Equal(t, "2", w.registered("1").Carries["deploy.yaml"])
	w.releaseWith("2", files)
	w.nothing(Define{ID: w.id(), Definition: d, Carries: files, Adopt: []string{"2"}})
}

func TestOnlyRevisionsUnderWayAdoptWhatChanged(t *testing.T) {
	d, carries := deploying("deploy.yaml", "1")
	w := newTale(t, d, antHosts)
	w.releaseWith("1", carries)
	later, files := deploying("deploy2.yaml", "2")
	adopt := Define{ID: "d", Definition: later, Carries: files, Adopt: []string{"1"}}
	_, err := w.state.Preview(&adopt, nil)
	assert.NoError(t, err)
	w.idle() // it finishes between the preview and the record
	w.says(w.refused(adopt, NotRunning), "revision 1 cannot adopt a definition: it is finished since event")
	adopt.Adopt = []string{"11"}
	w.says(w.refused(adopt, UnknownRevision), "unknown revision \"11\" of pipeline ant-gateway")
	assert.True(t, w.state.Defines(d), "what was refused was defined")
}

func TestThePreviewTellsWhichManifestEachRevisionAppliesWhere(t *testing.T) {
	d, carries := deploying("deploy.yaml", "1")
	w := newTale(t, d, antHosts)
	w.releaseWith("1", carries)
	w.until("1", beta, record.StageFinished)
	w.releaseWith("2", carries)
	preview := func(c Define) (lines []string) {
		changes, err := w.state.Preview(&c, nil)
		require.NoError(t, err)
		for _, c := range changes {
			lines = append(lines, c.Revision+" "+c.Message())
		}
		return lines
	}
	same := func(got []string, want ...string) {
		t.Helper()
		assert.True(t, slices.Equal(got, want), "it tells\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	later, files := deploying("deploy2.yaml", "2")
	same(preview(Define{Definition: later, Carries: files, Adopt: []string{"2"}}),
		"1 host-deployed of "+string(onProd)+" keeps deploy.yaml, which its revision carries, and does not take deploy2.yaml",
		"2 host-deployed of "+string(onBeta)+" takes deploy2.yaml, and not deploy.yaml",
		"2 host-deployed of "+string(onProd)+" takes deploy2.yaml, and not deploy.yaml")
	_, files = deploying("deploy.yaml", "2")
	same(preview(Define{Definition: d, Carries: files, Adopt: []string{"1"}}),
		"1 host-deployed of "+string(onProd)+" takes deploy.yaml as it is now, and not as its revision carries it",
		"2 host-deployed of "+string(onBeta)+" keeps deploy.yaml as its revision carries it, and does not take it as it is now",
		"2 host-deployed of "+string(onProd)+" keeps deploy.yaml as its revision carries it, and does not take it as it is now")
	same(preview(Define{Definition: d, Carries: carries}))
	added := antGateway(deployed, tested)
	added.Stages[1].Deploy.Steps[0].Manifest, added.Stages[2].Deploy.Steps[0].Manifest = "deploy.yaml", "deploy.yaml"
	got := preview(Define{Definition: added, Carries: record.Files{"deploy.yaml": "1", "lib/x": "1", "lib/y": "3", "host-tested.yaml": "3"}})
	assert.False(t, strings.Contains(strings.Join(got, "\n"), "keeps"), "nothing that is applied is another:\n%s", strings.Join(got, "\n"))
}

// What a former version defined gave revisions under way the manifests that it named, and
// does so when it is folded now.
func TestADefinitionOfAFormerVersionGivesItsManifestsToAll(t *testing.T) {
	d, carries := deploying("deploy.yaml", "1")
	w := newTale(t, d, antHosts)
	w.releaseWith("1", carries)
	later, files := deploying("deploy2.yaml", "2")
	data, err := json.Marshal(map[string]any{"version": 1, "definition": later, "carries": files})
	require.NoError(t, err)
	w.append(deploylog.Event{Deployment: "d", Target: w.state.target, Name: record.PipelineDefined, Attempt: 1, Data: data})
	w.until("1", onBeta, record.HostStarted)
	w.wantFiles("deploy2.yaml", files)
}

// What a revision adopted after it had failed it has when a stage is rolled back to it, though
// another one has finished since.
func TestAStageIsRolledBackToWhatWasAdoptedAfterAFailure(t *testing.T) {
	w := newAntGateway(t, copied, deployed)
	w.fails[string(onProd)+" "+deployed] = "no space left"
	files := record.Files{}
	for _, step := range []string{copied, deployed, tested} {
		files[step+".yaml"] = "1"
	}
	w.releaseWith("1", files)
	w.idle()
	delete(w.fails, string(onProd)+" "+deployed)
	w.do(Define{ID: w.id(), Definition: antGateway(copied, deployed, tested), Carries: files, Adopt: []string{"1"}})
	w.do(Release{Revision: "2", ID: w.id(), Carries: files, Fix: true})
	for _, kind := range []string{"x86", "aarch64", "raspbian"} {
		w.do(ReceiveArtifact{Revision: "2", Kind: kind, Ref: kind})
	}
	w.idle()
	w.do(Rollback{Stage: "beta", Revision: "1", ID: w.id()})
	w.idle()
	assert.True(t, w.happened("1", onBeta, tested), "it is rolled back to what the revision was before")
}
