package pipeline

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

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

// applied are the manifests that a revision applied on a host, with what they were then.
type applied map[string]string // by revision and host

// finish does all that can be done, and takes note of what was applied.
func (w *tale) finish(into applied) {
	w.Helper()
	for range 10_000 {
		before := len(w.log)
		s, ok := w.step()
		if !ok {
			return
		}
		if s.Manifest != "" && len(w.log) > before {
			into[s.Revision+" "+s.Host] = s.Manifest + " " + s.Files[s.Manifest] + s.Files["lib/x"]
		}
	}
	w.Fatal("it never ends")
}

func (w *tale) releaseWith(revision string, carries record.Files) {
	w.Helper()
	w.do(Release{Revision: revision, ID: w.id(), Carries: carries})
	for _, kind := range []string{"x86", "aarch64", "raspbian"} {
		w.do(ReceiveArtifact{Revision: revision, Kind: kind, Ref: kind})
	}
}

// A step that changes is introduced like one that is new: revisions that come later do it
// as it is then. Those under way have one in its place: what the step was when they were
// released.
func TestAChangedStepIsOfLaterRevisions(t *testing.T) {
	for _, c := range []struct {
		name     string
		manifest string // of the step from now on
		at       deploylog.Target
		event    string
		adopt    []string
		onBeta   string
		onProd   string
	}{
		{name: "another manifest, before the step's first place", manifest: "deploy2.yaml", at: beta, event: record.StageStarted, onBeta: "deploy.yaml 11", onProd: "deploy.yaml 11"},
		{name: "another manifest, behind its first place", manifest: "deploy2.yaml", at: onBeta, event: deployed, onBeta: "deploy.yaml 11", onProd: "deploy.yaml 11"},
		{name: "another manifest, right before its last place", manifest: "deploy2.yaml", at: onProd, event: record.HostStarted, onBeta: "deploy.yaml 11", onProd: "deploy.yaml 11"},
		{name: "another text", manifest: "deploy.yaml", at: beta, event: record.StageFinished, onBeta: "deploy.yaml 11", onProd: "deploy.yaml 11"},
		{name: "adopted before its first place", manifest: "deploy2.yaml", at: beta, event: record.StageStarted, adopt: []string{"1"}, onBeta: "deploy2.yaml 22", onProd: "deploy2.yaml 22"},
		{name: "adopted behind its first place", manifest: "deploy2.yaml", at: beta, event: record.StageFinished, adopt: []string{"1"}, onBeta: "deploy.yaml 11", onProd: "deploy2.yaml 22"},
		{name: "another text, adopted", manifest: "deploy.yaml", at: beta, event: record.StageFinished, adopt: []string{"1"}, onBeta: "deploy.yaml 11", onProd: "deploy.yaml 22"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, carries := deploying("deploy.yaml", "1")
			w, got := newTale(t, d, antHosts), applied{}
			w.releaseWith("1", carries)
			for !w.happened("1", c.at, c.event) {
				s, ok := w.step()
				if !ok {
					t.Fatalf("%s of %s never happens", c.event, c.at)
				}
				if s.Manifest != "" {
					got["1 "+s.Host] = s.Manifest + " " + s.Files[s.Manifest] + s.Files["lib/x"]
				}
			}
			later, files := deploying(c.manifest, "2")
			w.do(Define{ID: w.id(), Definition: later, Carries: files, Adopt: c.adopt})
			w.releaseWith("2", files)
			w.finish(got)
			for at, want := range map[string]string{
				"1 antworker002": c.onBeta, "1 antworker001": c.onProd, "2 antworker002": c.manifest + " 22", "2 antworker001": c.manifest + " 22",
			} {
				if got[at] != want {
					t.Errorf("%s was applied %s, want %s", at, got[at], want)
				}
			}
		})
	}
}

// So it is for what a stage applies by itself, while retries are those of the present.
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
		if s.Retries != 3 {
			t.Errorf("it has %d retries", s.Retries)
		}
	}
}

// A revision that failed adopts what mends it, and is retried.
func TestARevisionThatFailedAdoptsWhatChanged(t *testing.T) {
	d, carries := deploying("deploy.yaml", "1")
	w, got := newTale(t, d, antHosts), applied{}
	w.fails[string(onBeta)+" "+deployed] = "no space left"
	w.releaseWith("1", carries)
	w.idle()
	delete(w.fails, string(onBeta)+" "+deployed)
	_, files := deploying("deploy.yaml", "2")
	w.do(Define{ID: w.id(), Definition: d, Carries: files, Adopt: []string{"1"}})
	w.do(Retry{Revision: "1"})
	w.finish(got)
	if got["1 antworker002"] != "deploy.yaml 22" || got["1 antworker001"] != "deploy.yaml 22" {
		t.Errorf("applied were %v", got)
	}
	if r := w.state.Registrations()[0]; r.Carries["deploy.yaml"] != "2" {
		t.Errorf("it carries %v", r.Carries)
	}
	before := len(w.log)
	w.releaseWith("2", files)
	w.do(Define{ID: w.id(), Definition: d, Carries: files, Adopt: []string{"2"}})
	if len(w.log) != before+4 {
		t.Error("a revision adopted what it has already")
	}
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
	w.seedPicksTheSame()
	w.idle()
	if !w.happened("1", onBeta, tested) {
		t.Error("it is rolled back to what the revision was before")
	}
}

// A step that was left out is done where the revision still comes to it.
func TestARevisionAdoptsAStepThatItHasSkipped(t *testing.T) {
	w := newAntGateway(t, copied, deployed)
	w.release("1", "x86", "aarch64", "raspbian")
	w.until("1", beta, record.StageFinished)
	w.do(Define{ID: w.id(), Definition: antGateway(copied, deployed, tested)})
	w.do(Define{ID: w.id(), Definition: antGateway(copied, deployed, tested), Adopt: []string{"1"}})
	w.seedPicksTheSame()
	w.idle()
	if w.happened("1", onBeta, tested) || !w.happened("1", onProd, tested) {
		t.Error("it is tested in beta, or not in prod")
	}
}

func TestOnlyRevisionsUnderWayAdoptWhatChanged(t *testing.T) {
	d, carries := deploying("deploy.yaml", "1")
	w := newTale(t, d, antHosts)
	w.releaseWith("1", carries)
	later, files := deploying("deploy2.yaml", "2")
	adopt := Define{ID: "d", Definition: later, Carries: files, Adopt: []string{"1"}}
	if _, err := w.state.Preview(&adopt, nil); err != nil {
		t.Error(err)
	}
	w.idle() // it finishes between the preview and the record
	w.says(w.refused(adopt, NotRunning), "revision 1 cannot adopt a definition: it is finished since event")
	adopt.Adopt = []string{"11"}
	w.says(w.refused(adopt, UnknownRevision), "unknown revision \"11\" of pipeline ant-gateway")
	if !w.state.Defines(d) {
		t.Error("what was refused was defined")
	}
}

func TestThePreviewTellsWhichManifestEachRevisionAppliesWhere(t *testing.T) {
	d, carries := deploying("deploy.yaml", "1")
	w := newTale(t, d, antHosts)
	w.releaseWith("1", carries)
	w.until("1", beta, record.StageFinished)
	w.releaseWith("2", carries)
	preview := func(c Define) (lines []string) {
		changes, err := w.state.Preview(&c, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			lines = append(lines, c.Revision+" "+c.Message())
		}
		return lines
	}
	same := func(got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("it tells\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
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
	if got := preview(Define{Definition: added, Carries: record.Files{"deploy.yaml": "1", "lib/x": "1", "lib/y": "3", "host-tested.yaml": "3"}}); strings.Contains(strings.Join(got, "\n"), "keeps") {
		t.Errorf("nothing that is applied is another:\n%s", strings.Join(got, "\n"))
	}
}

// What a former version defined gave revisions under way the manifests that it named, and
// does so when it is folded now.
func TestADefinitionOfAFormerVersionGivesItsManifestsToAll(t *testing.T) {
	d, carries := deploying("deploy.yaml", "1")
	w := newTale(t, d, antHosts)
	w.releaseWith("1", carries)
	later, files := deploying("deploy2.yaml", "2")
	data, err := json.Marshal(map[string]any{"version": 1, "definition": later, "carries": files})
	if err != nil {
		t.Fatal(err)
	}
	w.append(deploylog.Event{Deployment: "d", Target: w.state.target, Name: record.PipelineDefined, Attempt: 1, Data: data})
	w.until("1", onBeta, record.HostStarted)
	w.wantFiles("deploy2.yaml", files)
}
