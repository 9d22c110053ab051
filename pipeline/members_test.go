package pipeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

var betaGroup = record.GroupTarget("ant-gateway", "ant-gateway/beta")

// inventory lets the query of the group beta select these hosts.
func (w *tale) inventory(hosts ...string) {
	w.do(SetMembers{Members: map[string][]string{"ant-gateway/beta": hosts}, ID: w.id()})
}

func newFleet(t *testing.T, hosts ...string) *tale {
	return newTale(t, antGateway(deployed), map[string][]string{"ant-gateway/beta": hosts, "ant-gateway/prod": {"antworker001"}})
}

func TestAnInventoryThatIsEmptyForASecondFinishesNoGroup(t *testing.T) {
	w := newFleet(t, "a", "b")
	w.release("v1", "x86", "aarch64", "raspbian")
	w.until("v1", record.HostTarget("ant-gateway", "beta", "a"), record.HostStarted)
	w.inventory()
	w.mayDo()
	w.explains(beta, fmt.Sprintf("v1 host-group-finished-successfully: no-hosts ant-gateway/beta host-group-members-held host-group/ant-gateway/beta #%d", len(w.log)))
	n := len(w.log)
	w.inventory()
	assert.Len(t, w.log, n, "that it holds is recorded once")
	w.inventory("a", "b", "b") // which is listed twice
	assert.Empty(t, w.state.Holds())
	w.mayDo("v1 host-deployed host/beta/a", "v1 host-started host/beta/b")
}

func TestAQueryThatNeverSelectedAHostHoldsItsGroup(t *testing.T) {
	w := newFleet(t)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.explains(betaGroup, " host-group-members-changed: no-hosts ant-gateway/beta host-group-members-changed host-group/ant-gateway/beta #2\n"+
		"v1 stage-started: awaits-stage build stage/ant-gateway/build")
	w.idle()
	w.explains(betaGroup, "v1 host-group-finished-successfully: no-hosts ant-gateway/beta host-group-members-changed host-group/ant-gateway/beta #2")
	w.says(w.refused(Confirm{Group: "beta", ID: w.id()}, SelectsNoHost), "allow_empty: true")
}

func TestWhatAGroupWouldLoseIsConfirmedByAPerson(t *testing.T) {
	w := newFleet(t, "a", "b", "c", "d")
	w.refused(Confirm{Group: "ant-gateway/beta"}, NothingToConfirm)
	w.refused(Confirm{Group: "bta"}, UnknownGroup)
	w.refused(Confirm{Group: "prod"}, NothingToConfirm)
	w.release("v1", "x86", "aarch64", "raspbian")
	w.until("v1", betaGroup, record.GroupStarted)
	w.inventory("d")
	w.mayDo()
	w.explains(betaGroup, "v1 host-group-finished-successfully: awaits-confirmation ant-gateway/beta host-group-members-held host-group/ant-gateway/beta "+
		"3 of 4 hosts would leave it at once, and max_leaving lets 2 go: a, b, c #"+fmt.Sprint(len(w.log)))
	w.inventory("c", "d") // what is less wrong is taken over without a question
	w.inventory("x", "y")
	w.inventory("x", "z")
	w.mayDo()
	w.refused(Confirm{Group: "bta"}, UnknownGroup)
	w.do(Confirm{Group: "beta", ID: w.id(), By: "ann"})
	w.mayDo("v1 host-started host/beta/x", "v1 host-started host/beta/z")
	w.refused(Confirm{Group: "beta"}, NothingToConfirm)
	assert.Equal(t, "ann", record.Read(w.log[len(w.log)-1].Data).By, "it was confirmed by")
}

func TestAPreviewOfALossThatHoldsTakesNoStepAway(t *testing.T) {
	w := newFleet(t, "a", "b", "c")
	w.release("v1", "x86", "aarch64", "raspbian")
	assert.Empty(t, w.changes(nil, map[string][]string{"ant-gateway/beta": {"c"}}))
}

// What failed before a retry begins anew: no more of it at once than what begins at all.
func TestARetryLetsNoMoreHostsFlyThanTheFirstAttempt(t *testing.T) {
	w := newFleet(t, "a", "b", "c", "d", "e")
	group := &w.state.definition.Stages[1].Deploy.HostGroups[0]
	group.MaxInFlight, group.MaxFailed = &budget.Budget{Count: 1}, budget.Budget{Count: 3}
	at := func(host string) deploylog.Target { return record.HostTarget("ant-gateway", "beta", host) }
	for _, h := range []string{"a", "b", "c", "d"} {
		w.fails[string(at(h))+" "+deployed] = "disk full"
	}
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	w.do(Retry{Revision: "v1"})
	w.mayDo("v1 host-deployed host/beta/a")
	w.explains(at("b"), "v1 host-deployed: max-in-flight ant-gateway/beta 0 of 5, and max_in_flight lets 1")

	// Another one does not begin while it is at work, or rests before another try.
	w.append(w.state.Begun(w.id(), slices.Collect(w.state.Decide(noon, Can{}))))
	w.inventory("a", "b", "c", "d")
	w.mayDo("v1 host-deployed host/beta/a")
	w.explains(at("b"), fmt.Sprintf("v1 host-deployed: max-in-flight ant-gateway/beta host-started %s 1 of 4, and max_in_flight lets 1 #%d", at("a"), w.seq("v1", at("a"), record.HostStarted)))
}

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
	w.do(Release{Revision: revision, ID: w.id(), Carries: carries})
	for _, kind := range []string{"x86", "aarch64", "raspbian"} {
		w.do(ReceiveArtifact{Revision: revision, Kind: kind, Ref: kind})
	}
}

// The manifest of a stage is what it was when a revision was released, while retries are those of the present.
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
		for _, c := range must.Get(w.state.Preview(&c, nil))(t) {
			lines = append(lines, c.Revision+" "+c.Message())
		}
		return lines
	}
	same := func(got []string, want ...string) {
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

// What a former version defined gave revisions under way the manifests that it named, and does so when it is folded now.
func TestADefinitionOfAFormerVersionGivesItsManifestsToAll(t *testing.T) {
	d, carries := deploying("deploy.yaml", "1")
	w := newTale(t, d, antHosts)
	w.releaseWith("1", carries)
	later, files := deploying("deploy2.yaml", "2")
	data := must.Get(json.Marshal(map[string]any{"version": 1, "definition": later, "carries": files}))(t)
	w.append(deploylog.Event{Deployment: "d", Target: w.state.target, Name: record.PipelineDefined, Attempt: 1, Data: data})
	w.until("1", onBeta, record.HostStarted)
	w.wantFiles("deploy2.yaml", files)
}

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

// regions is a pipeline whose stages and groups differ by region, and that has its own name before one of them.
func regions() *definition.Definition {
	approval := func(name string, after ...string) definition.Stage {
		return definition.Stage{Name: name, After: after, Approval: &definition.Approval{}}
	}
	return &definition.Definition{Name: "gw", Stages: []definition.Stage{
		approval("eu/approve"), approval("us/approve"), approval("gw/legal"), deployTo("eu/beta", []string{"eu/approve"}, "eu/hosts", deployed),
		deployTo("eu/prod", []string{"eu/beta"}, "eu/all", deployed), deployTo("prod", []string{"eu/prod"}, "us/all", deployed),
	}}
}

func TestAStageIsNamedByItsLastPartWhereOnlyOneHasIt(t *testing.T) {
	w := newTale(t, regions(), nil)
	for name, want := range map[string]string{
		"eu/beta": "eu/beta", "beta": "eu/beta", "gw/eu/beta": "eu/beta", "legal": "gw/legal", "gw/legal": "gw/legal",
		"prod": "prod", "gw/prod": "prod", "eu/prod": "eu/prod",
	} {
		got := must.Get(w.state.Stage(name))(t)
		assert.Equal(t, want, got, "%s is %s, want %s", name, got, want)
	}
	assert.Equal(t, "eu/hosts", must.Get(w.state.Group("hosts"))(t))
	for _, c := range []struct {
		command Command
		code    refusal.Code
		want    string
	}{
		{Approve{Revision: "1", Stage: "approve"}, AmbiguousName, `ambiguous stage "approve" of pipeline gw: it may be eu/approve or us/approve; give the whole name`},
		{Approve{Revision: "1", Stage: "leagl"}, UnknownStage, `unknown stage "leagl" of pipeline gw: did you mean gw/legal?`},
		{Approve{Revision: "1", Stage: "zzz"}, UnknownStage, `unknown stage "zzz" of pipeline gw: it has eu/approve, us/approve, gw/legal, eu/beta, eu/prod, prod`},
		{Approve{Revision: "1", Stage: "/approve"}, UnknownStage, `unknown stage "/approve"`},
		{Confirm{Group: "all"}, AmbiguousName, `ambiguous host group "all" of pipeline gw: it may be eu/all or us/all`},
		{Confirm{Group: "hsots"}, UnknownGroup, "did you mean eu/hosts?"},
		{Confirm{Group: "hosts"}, NothingToConfirm, "host group eu/hosts has nothing to confirm"},
	} {
		if _, known := w.state.byRevision["1"]; !known {
			w.release("1")
		}
		w.says(w.refused(c.command, c.code), c.want)
	}
	w.idle()
	w.do(Approve{Revision: "1", Stage: "legal"})
	e := w.log[len(w.log)-1]
	assert.True(t, e.Target == "stage/gw/legal", "approved is %s", e.Target)
}

func TestATargetIsExplainedByTheLastPartOfItsName(t *testing.T) {
	w := newTale(t, regions(), map[string][]string{"eu/hosts": {"h"}})
	w.release("1")
	for target, want := range map[deploylog.Target]string{
		"stage/gw/beta":    "1 stage-started: awaits-stage eu/approve stage/gw/eu/approve",
		"host/gw/hosts/h":  "1 stage-started: awaits-stage eu/approve stage/gw/eu/approve",
		"stage/gw/approve": " : no-target stage/gw/eu/approve or stage/gw/us/approve",
		"host/gw/hosts/x":  " : no-member eu/hosts host-group-members-changed host-group/gw/eu/hosts #2",
	} {
		w.explains(target, want)
	}
}

// checkFolded holds that what was needed of the log up to an event, and all of the rest, folds to what all of it folds to.
func (w *world) checkFolded() { w.wantSame(append(w.short, w.log[w.upTo:]...)) }

func neededOf(s *State, events []deploylog.Event) (needed []deploylog.Event) {
	for _, e := range events {
		if e, ok := s.Needed(e); ok {
			needed = append(needed, e)
		}
	}
	return needed
}

func (w *world) wantSame(events []deploylog.Event) {
	folded := New("p")
	for _, e := range events {
		folded.Apply(e)
	}
	if at, same := sameFold(w.log, events); !same {
		w.Fatalf("%s is not what it was: what %d of %d events fold to differs, after\n%s", at, len(events), len(w.log), w.story())
	}
	for what, ask := range map[string]func(*State) any{
		"choice":        func(s *State) any { return slices.Collect(s.Decide(w.now, Can{})) },
		"explanation":   func(s *State) any { return s.Explain(s.target) },
		"registrations": func(s *State) any { return s.Registrations() },
		"status":        func(s *State) any { return s.Status() },
		"wake":          func(s *State) any { return s.Wake() },
	} {
		if got, want := ask(folded), ask(w.state); !reflect.DeepEqual(got, want) {
			w.Fatalf("the %s is %+v, not %+v, after\n%s", what, got, want, w.story())
		}
	}
}

func sameFold(log, events []deploylog.Event) (at string, ok bool) {
	full, folded := New("p"), New("p")
	for _, e := range log {
		full.Apply(e)
	}
	for _, e := range events {
		folded.Apply(e)
	}
	return same(reflect.ValueOf(full), reflect.ValueOf(folded))
}

// What comes late, of deployments that are gone, is rare: it is told here event by event.
func TestWhatIsNeededOfDeploymentsThatAreGone(t *testing.T) {
	w := newTale(t, &definition.Definition{Name: "p", Stages: []definition.Stage{deployTo("s", nil, "g", deployed)}}, map[string][]string{"g": {"h"}})
	w.release("v1")
	w.until("v1", record.HostTarget("p", "g", "h"), record.HostStarted)
	steps := slices.Collect(w.state.Decide(noon, Can{}))
	begun := w.state.Begun(w.id(), steps)
	w.append(begun)
	late := deploylog.Event{Deployment: steps[0].Deployment, Target: steps[0].Target, Revision: "v1", Name: deployed, Attempt: 1}
	w.do(Cancel{Revision: "v1"})
	w.append(late)
	w.release("v2")
	w.until("v2", "pipeline/p", record.PipelineFinished)
	late.Name = "host-tested"
	lost := steps[0].Lost("lost", "somebody", "R1", "no answer")
	settled := steps[0].Settled("settled", "somebody")
	w.append(late, lost, settled)
	var short []deploylog.Event
	state := New("p")
	for i, e := range w.log {
		state.Apply(e)
		short = neededOf(state, append(short, e))
		for what, events := range map[string][]deploylog.Event{"at once": neededOf(state, w.log[:i+1]), "bit by bit": short} {
			at, same := sameFold(w.log[:i+1], events)
			assert.True(t, same, "%s: what is needed of %d events, left out %s, folds to another %s", e.Name, i+1, what, at)
		}
	}
	assert.True(t, len(short) <= len(w.log)-5, "%d of %d events are needed", len(short), len(w.log))
}

// same reports whether two values hold the same, unexported fields and what is pointed to
// included, or else where they differ. Nothing and what is empty are the same.
func same(a, b reflect.Value) (at string, ok bool) {
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return "", a.IsNil() == b.IsNil()
		}
		return same(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if at, ok := same(a.Field(i), b.Field(i)); !ok {
				return "." + a.Type().Field(i).Name + at, false
			}
		}
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return fmt.Sprintf(" (%d and %d)", a.Len(), b.Len()), false
		}
		for i := range a.Len() {
			if at, ok := same(a.Index(i), b.Index(i)); !ok {
				return fmt.Sprintf("[%d]%s", i, at), false
			}
		}
	case reflect.Map:
		if a.Len() != b.Len() {
			return fmt.Sprintf(" (%d and %d)", a.Len(), b.Len()), false
		}
		for _, k := range a.MapKeys() {
			if !b.MapIndex(k).IsValid() {
				return fmt.Sprintf("[%v]", k), false
			}
			if at, ok := same(a.MapIndex(k), b.MapIndex(k)); !ok {
				return fmt.Sprintf("[%v]%s", k, at), false
			}
		}
	default:
		return fmt.Sprintf(" (%v and %v)", a, b), a.Equal(b)
	}
	return "", true
}

// files draws what an event carries: texts that are no other event's, or, as former versions recorded it, nothing.
func (w *world) files(d *definition.Definition, id string) record.Files {
	if w.n(4, "former version") == 0 {
		return nil
	}
	carries := record.Files{}
	d.Manifests(func(_ string, path *string) { carries[*path] = id })
	return carries
}

// carriedOracle knows how a deployment applies a step, from all that the log has recorded.
type carriedOracle struct {
	log     []record.Payload                     // of the definitions, and of what was released
	release map[string]int                       // where in log a deployment was released, or adopted a definition
	names   map[string]string                    // of revisions, by deployment
	applied map[[2]string]deployment.Application // by deployment and step, since then
	missed  map[string]map[int]bool              // definitions of log that came when a deployment had ended
	last    int                                  // definition of log
}

// apply folds in an event. What has ended for good adopts nothing, though a rollback to the
// same revision, under way under the same name, may.
func (o *carriedOracle) apply(e deploylog.Event, under func(deployment string) bool) {
	if o.release == nil {
		o.release, o.names, o.applied, o.missed = map[string]int{}, map[string]string{}, map[[2]string]deployment.Application{}, map[string]map[int]bool{}
	}
	var p record.Payload
	_ = json.Unmarshal(e.Data, &p)
	switch e.Name {
	case record.PipelineDefined:
		o.log, o.last = append(o.log, p), len(o.log)
		for id, revision := range o.names {
			if !under(id) {
				o.missed[id][len(o.log)-1] = true
			}
			if slices.Contains(p.Adopt, revision) && under(id) {
				o.release[id] = len(o.log) - 1
				maps.DeleteFunc(o.applied, func(step [2]string, _ deployment.Application) bool { return step[0] == id })
			}
		}
	case record.PipelineStarted:
		now := record.Payload{Carries: p.Carries}
		for _, before := range o.log {
			now.Definition = cmp.Or(before.Definition, now.Definition)
		}
		o.release[e.Deployment], o.names[e.Deployment], o.missed[e.Deployment] = len(o.log), e.Revision, map[int]bool{}
		if p.Rollback != nil { // which goes on where the revision came to its end
			o.release[e.Deployment], o.missed[e.Deployment] = o.release[p.Rollback.Original], maps.Clone(o.missed[p.Rollback.Original])
			return
		}
		if p.Redo != nil { // so does what does something again
			o.release[e.Deployment], o.missed[e.Deployment] = o.release[p.Redo.Of], maps.Clone(o.missed[p.Redo.Of])
			delete(o.missed[e.Deployment], o.last) // and gets what is new to it in the present definition
			return
		}
		o.log = append(o.log, now)
	}
}

func manifestOf(d *definition.Definition, step step.Step) string {
	for _, s := range d.Stages {
		if s.Name != step.Stage {
			continue
		}
		group := s.Build != nil && s.Build.Group != ""
		if manifest, _ := s.Once(); step.Event == record.StageApplied && !group || step.Event == record.StageBuilt && group {
			return manifest
		}
		if s.Deploy == nil {
			return ""
		}
		for _, h := range s.Deploy.Steps {
			if h.Event == step.Event {
				return h.Manifest
			}
		}
	}
	return ""
}

// of is how a step is to be applied: with the manifest of the first definition that has it, from the one with which its
// revision was released or which that adopted, and the files of the first release or definition since then that has
// these. What a former version released follows the present definition.
func (o *carriedOracle) of(step step.Step) (as deployment.Application) {
	since := slices.Clone(o.log[o.release[step.Deployment]:])
	if since[0].Carries == nil {
		for _, p := range o.log {
			if of := manifestOf(p.Definition, step); of != "" {
				as.Manifest = of
			}
		}
		return as
	}
	for i := range since {
		if o.missed[step.Deployment][o.release[step.Deployment]+i] {
			since[i] = record.Payload{Definition: &definition.Definition{}, Version: 1}
		}
	}
	for _, p := range since {
		as.Manifest = cmp.Or(as.Manifest, manifestOf(p.Definition, step))
	}
	for i, p := range since {
		if _, ok := p.Carries[as.Manifest]; ok && (i == 0 || p.Version > 0) { // not those of other revisions
			return deployment.Application{Manifest: as.Manifest, Files: p.Carries}
		}
	}
	return as
}

// check finds a step that would not get the bytes that its revision carries, or that others of its revision got before it.
func (o *carriedOracle) check(steps []step.Step) string {
	for _, step := range steps {
		if step.Manifest == "" && step.Packages == "" {
			continue
		}
		same := func(a, b deployment.Application) bool {
			return a.Manifest == b.Manifest && maps.Equal(a.Files, b.Files)
		}
		is := deployment.Application{Manifest: cmp.Or(step.Manifest, step.Packages), Files: step.Files}
		if want := o.of(step); !same(is, want) {
			return fmt.Sprintf("%s of %s would apply %v, and is to apply %v", step.Event, step.Target, is, want)
		}
		key := [2]string{step.Deployment, step.Stage + " " + step.Event}
		if before, begun := o.applied[key]; begun && before.Files != nil && !same(is, before) {
			return fmt.Sprintf("%s of %s would apply %v, others of its revision did %v", step.Event, step.Target, is, before)
		}
		o.applied[key] = is
	}
	return ""
}

func (w *tale) wantFiles(manifest string, want record.Files) {
	w.Helper()
	for step := range w.state.Decide(noon, Can{}) {
		if step.Manifest == manifest {
			assert.True(w, maps.Equal(step.Files, want) && (step.Files == nil) == (want == nil),
				"%s is applied with %v, want %v", manifest, step.Files, want)
			return
		}
	}
	w.Errorf("no step applies %s, only %q can be done", manifest, w.doable())
}
