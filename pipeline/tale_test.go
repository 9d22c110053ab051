package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// tale is a pipeline in a test, told event by event.
type tale struct {
	*testing.T
	state *State
	log   []deploylog.Event
	fails map[string]string // "TARGET EVENT" → cause
}

func newTale(t *testing.T, d *definition.Definition, members map[string][]string) *tale {
	w := &tale{T: t, state: New(d.Name), fails: map[string]string{}}
	w.do(Define{Definition: d, ID: w.id()})
	w.do(SetMembers{Members: members, ID: w.id()})
	return w
}

func (w *tale) id() string { return fmt.Sprintf("id-%d", len(w.log)) }

func (w *tale) append(events ...deploylog.Event) {
	for _, e := range events {
		require.NoError(w, e.Validate())
		e.Seq = int64(len(w.log) + 1)
		w.log = append(w.log, e)
		w.state.Apply(e)
		problem := w.state.drift()
		require.True(w, problem == "", "after event %d, %s of %s: %s", e.Seq, e.Name, e.Target, problem)
	}
}

func (w *tale) do(c Command) {
	events := must.Get(w.state.Propose(c, noon))(w)
	w.append(events...)
}

func (w *tale) refused(c Command, code refusal.Code) error {
	events, err := w.state.Propose(c, noon)
	var refused *refusal.Error
	require.ErrorAs(w, err, &refused, "%#v gave %v and %v, and should be refused", c, events, err)
	assert.True(w, refused.Code == code, "refused as %s (%s), not %s", refused.Code, err, code)
	return err
}

// says wants a sentence that is asserted here and nowhere else.
func (w *tale) says(err error, want string) {
	assert.Contains(w, err.Error(), want, "it says\n  %s\nand not\n  %s", err, want)
}

func (w *tale) release(revision string, kinds ...string) {
	w.do(Release{Revision: revision, ID: w.id()})
	for _, kind := range kinds {
		w.do(ReceiveArtifact{Revision: revision, Kind: kind, Ref: kind + "-" + revision})
	}
}

// step does the first thing that can be done.
func (w *tale) step() (step.Step, bool) {
	for s := range w.state.Decide(noon, Can{}) {
		if cause, bad := w.fails[string(s.Target)+" "+s.Event]; bad {
			w.append(s.Failed(cause, ""))
			return s, true
		}
		events := must.Get(s.Completed(map[string]string{"x86": "x", "aarch64": "a", "raspbian": "r"}))(w)
		w.append(events...)
		return s, true
	}
	return step.Step{}, false
}

func (w *tale) until(revision string, t deploylog.Target, event string) {
	for !w.happened(revision, t, event) {
		_, ok := w.step()
		require.True(w, ok, "%s of %s never happens: %v", event, t, texts(w.state.Explain(w.state.target)))
	}
}

// idle goes on until nothing can be done.
func (w *tale) idle() {
	w.Helper()
	for range 10_000 {
		if _, ok := w.step(); !ok {
			return
		}
	}
	w.Fatal("it never ends")
}

func (w *tale) happened(revision string, t deploylog.Target, event string) bool {
	return w.seq(revision, t, event) > 0
}

func (w *tale) seq(revision string, t deploylog.Target, event string) int64 {
	for _, e := range w.log {
		if e.Revision == revision && e.Target == t && e.Name == event {
			return e.Seq
		}
	}
	return 0
}

func (w *tale) transcript(revision string) string {
	var b strings.Builder
	for _, e := range w.log {
		if e.Revision != revision {
			continue
		}
		marker := e.Name == e.Target.Started() || e.Name == e.Target.Succeeded() || e.Name == e.Target.Failed()
		depth := map[string]int{"pipeline": 0, "stage": 1, "host-group": 2, "host": 3}[e.Target.Kind()]
		if !marker {
			depth++
		}
		line := strings.Repeat("  ", depth) + e.Name
		if _, rest, _ := strings.Cut(string(e.Target), "/"); marker {
			if e.Target.Kind() == "host" {
				rest = rest[strings.LastIndexByte(rest, '/')+1:]
			}
			line += " " + rest
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

func (w *tale) story() (lines []string) {
	for _, e := range w.log {
		lines = append(lines, fmt.Sprintf("%d %s %s %s", e.Seq, e.Revision, e.Target, e.Name))
	}
	return lines
}

func texts(reasons []reason.Reason) (lines []string) {
	for _, r := range reasons {
		lines = append(lines, fmt.Sprintf("%s %s %s: %s", r.Revision, r.Target, r.Event, short(r)))
	}
	return lines
}

func deployTo(stage string, after []string, group string, events ...string) definition.Stage {
	s := definition.Stage{Name: stage, After: after, Deploy: &definition.Deploy{}}
	if group != "" {
		s.Deploy.HostGroups = []definition.HostGroup{{Name: group, Hosts: "attribute:group == " + group}}
	}
	for _, event := range events {
		s.Deploy.Steps = append(s.Deploy.Steps, definition.HostStep{Event: event, Manifest: event + ".yaml"})
	}
	return s
}

func antGateway(steps ...string) *definition.Definition {
	return &definition.Definition{Name: "ant-gateway", Stages: []definition.Stage{
		{Name: "build", Build: &definition.Build{Artifacts: []string{"x86", "aarch64", "raspbian"}}},
		deployTo("beta", []string{"build"}, "ant-gateway/beta", steps...),
		deployTo("prod", []string{"beta"}, "ant-gateway/prod", steps...),
	}}
}

var antHosts = map[string][]string{"ant-gateway/beta": {"antworker002"}, "ant-gateway/prod": {"antworker001"}}

func newAntGateway(t *testing.T, steps ...string) *tale {
	return newTale(t, antGateway(steps...), antHosts)
}

const (
	beta     = deploylog.Target("stage/ant-gateway/beta")
	prod     = deploylog.Target("stage/ant-gateway/prod")
	onBeta   = deploylog.Target("host/ant-gateway/beta/antworker002")
	onProd   = deploylog.Target("host/ant-gateway/prod/antworker001")
	copied   = "host-artifact-replicated"
	deployed = "host-deployed"
	tested   = "host-tested"
)

// offers wants these revisions to be there for others that need one which passed a stage, or
// finished where no stage is given; without any, a refusal.
func (w *tale) offers(stage, want string) {
	all, err := w.state.Candidates(needed(stage))
	var names []string
	for _, c := range all {
		names = append(names, c.Revision)
	}
	got := strings.Join(names, " ")
	assert.True(w, got == want && (err == nil) == (want != ""), "of stage %q are taken %q, %v, want %q", stage, got, err, want)
}

func needed(stage string) definition.Needed {
	if stage == "" {
		return definition.Needed{Pipeline: "p", Finished: true}
	}
	return definition.Needed{Pipeline: "p", Passed: []string{stage}}
}

func TestTheNewestRevisionThatPassedIsTaken(t *testing.T) {
	w := inProduction(t)
	w.offers("prod", "")
	_, err := w.state.Candidates(needed("prod"))
	w.says(err, "no revision of pipeline p was released yet: release one (deployster pipeline release p REVISION), and wait until it has passed eu/prod")
	w.releaseCarrying("1", files("1"))
	w.until("1", stageOf("build"), record.StageFinished)
	w.offers("build", "1")
	w.offers("prod", "")
	_, err = w.state.Candidates(needed("prod"))
	w.says(err, "the last one, 1, has not passed stage eu/prod; deployster pipeline status p shows what waits")
	w.until("1", stageOf("eu/prod"), record.StageFinished)
	w.offers("p/eu/prod", "1") // in announce
	w.offers("", "")
	w.idle()
	w.offers("", "1")
	w.releaseCarrying("2", files("2"))
	w.until("2", stageOf("eu/prod"), record.StageFinished)
	w.do(Cancel{Revision: "2"})
	w.offers("prod", "2 1")
	w.offers("", "1")
	_, err = w.state.Candidate(needed(""), "2")
	w.says(err, "revision 2 of pipeline p cannot be taken, for it has not finished: it is cancelled: take 1")
	_, err = w.state.Candidate(needed("prod"), "9")
	w.says(err, `unknown revision "9" of pipeline p: it has 1, 2`)
	_, err = w.state.Candidates(needed("prd"))
	w.says(err, "did you mean eu/prod?")
	two, err := w.state.Candidate(needed("prod"), "2")
	assert.True(t, err == nil && two.Artifacts["x86"] == "x-2" && two.Deployment != "" && slices.Equal(two.Passed, []string{"eu/prod"}),
		"taken is %+v, %v", two, err)
	w.do(Delete{ID: "deleted"})
	_, err = w.state.Candidates(needed("prod"))
	w.says(err, "it was deleted")
	assert.Equal(t, "x-2", two.Artifacts["x86"], "what was taken has changed")
}

// Which revisions are taken when a stage is rolled back or done again, checkTaken holds.
func TestWhatWasRolledBackIsNotTakenUntilItPassesAgain(t *testing.T) {
	w := inProduction(t, "1", "2", "3")
	w.do(Rollback{Stage: "prod", Revision: "1", ID: "back"})
	w.offers("prod", "1") // as soon as somebody wants it
	w.offers("build", "3 2 1")
	w.offers("", "1")
	_, err := w.state.Candidate(needed("prod"), "2")
	w.says(err, "for it was left behind when stage eu/prod was rolled back (event ")
	w.idle()
	w.do(Rollback{Stage: "prod", Revision: "3", ID: "forward"})
	w.idle()
	w.offers("", "3 1")
	_, err = w.state.Candidate(needed("prod"), "9")
	w.says(err, `unknown revision "9" of pipeline p: it has 1, 2, 3`)
	assert.Equal(t, 1, strings.Count(err.Error(), "3"), "a name is listed more than once")
}

// Whoever does the smoke tests again does so to learn whether what passed them still does.
func TestWhatFailedWhenItWasDoneAgainIsNotTaken(t *testing.T) {
	w := failing(t, "1")
	w.do(Approve{Revision: "1", Stage: "approve"})
	w.idle()
	w.fails["stage/p/smoke "+record.StageApplied] = "tests fail"
	w.do(Rerun{Stage: "smoke", Revision: "1", ID: "tests"})
	w.idle()
	w.offers("", "")
	_, err := w.state.Candidate(needed("smoke"), "1")
	w.says(err, "revision 1 of pipeline p cannot be taken, for it failed when stage smoke was done again (event ")
}

func TestARevisionKeepsWhatItTook(t *testing.T) {
	config := upstream.Input{Release: upstream.Release{Pipeline: "config", Revision: "3", Deployment: "c3"}, Passed: []string{"prod"}, Artifacts: map[string]string{"tar": "c.tar"}, Inputs: []upstream.Release{{Pipeline: "base", Revision: "1", Deployment: "b1"}}}
	d := production(deployed)
	d.Stages[1].Inputs = []definition.Input{{Pipeline: "config", Passed: "prod"}}
	w := newTale(t, d, map[string][]string{"all": {"h"}})
	w.says(w.refused(Release{Revision: "1"}, InputsMissing), "revision 1 of pipeline p cannot be released: it would take no revision of pipeline config")
	w.do(Release{Revision: "1", ID: "one", Carries: files("1"), Takes: []upstream.Input{config}})
	w.do(ReceiveArtifact{Revision: "1", Kind: "x86", Ref: "x-1"})
	w.do(Define{Definition: production(deployed), ID: "without"})
	takes := func(id string) {
		t.Helper()
		w.until("1", stageOf("eu/prod"), record.StageStarted)
		for _, s := range slices.Collect(w.state.Decide(noon, Can{})) {
			if s.Deployment == id && (len(s.Takes) != 1 || s.Takes[0].Deployment != "c3" || s.Takes[0].Artifacts["tar"] != "c.tar") {
				t.Errorf("%s takes %+v", s.Event, s.Takes)
			}
		}
	}
	takes("one")
	w.idle()
	taken, err := w.state.Candidate(needed(""), "1")
	var from []string
	for _, r := range taken.Inputs {
		from = append(from, r.String())
	}
	got := strings.Join(from, ", ")
	assert.True(t, err == nil && got == "base 1, config 3", "who takes it leads to %s, %v", got, err)
	w.releaseCarrying("2", files("2"))
	w.idle()
	again := w.state.revisions[1]
	assert.True(t, len(again.Takes) == 0, "a revision without inputs takes %v", again.Takes)
	w.do(Rollback{Stage: "prod", ID: "back"})
	takes("back")
	again = w.state.revisions[2]
	assert.True(t, again.Revision == "1" && len(again.Takes) == 1, "the rollback takes %+v", again)
	w.releaseCarrying("3", files("3"))
	with := production(deployed)
	with.Stages[1].Inputs = []definition.Input{{Pipeline: "config"}}
	w.says(w.refused(Define{Definition: with, ID: "with", Adopt: []string{"3"}}, InputsMissing), "revision 3 cannot adopt a definition whose inputs it was not released with: it took no revision of pipeline config; release another revision")
}

func TestInputsThatDoNotFitIntoAnEventAreRefused(t *testing.T) {
	w := inProduction(t)
	huge := upstream.Input{Release: upstream.Release{Pipeline: "config", Revision: "3", Deployment: "c3"}, Artifacts: map[string]string{}}
	for i := range 300 {
		huge.Artifacts[fmt.Sprint(i)] = strings.Repeat("r", 4<<10)
	}
	w.says(w.refused(Release{Revision: "1", ID: "one", Takes: []upstream.Input{huge}}, InputsTooLarge), "at most 1048576 fit into the log")
}

// checkTaken holds that what others may take follows from the log alone: whatever passed the
// stage after the last rollback to something older, and after it last failed to do the stage again.
func (w *world) checkTaken([]step.Step) {
	for i := range w.state.definition.Stages {
		stage := w.state.definition.Stages[i].Name
		all, err := w.state.Candidates(definition.Needed{Pipeline: "p", Passed: []string{stage}})
		var got []string
		for _, c := range all {
			got = append(got, c.Deployment)
		}
		if want := takenOf(w.log, record.StageTarget("p", stage)); !slices.Equal(got, want) || (err == nil) != (len(want) > 0) {
			w.Fatalf("of stage %s are taken %q, %v, and by the log %q, after\n%s", stage, got, err, want, w.story())
		}
	}
}

// takenOf are the deployments that may be taken, by the log: those whose last end of the
// stage no rollback to something older followed, and no failure of what did it again.
func takenOf(log []deploylog.Event, stage deploylog.Target) (taken []string) {
	order, original := map[string]int{}, map[string]string{}
	passed, back := map[string]int64{}, map[int64]int{} // last ends, and rollbacks to which order
	again, failed := map[string]bool{}, map[string]int64{}
	waits := map[string]int64{} // rollbacks of the stage that have not begun it
	for _, e := range log {
		if at := waits[e.Deployment]; at > 0 {
			switch e.Name {
			case record.PipelineCancelled:
				delete(back, at)
			case record.PipelineRetried:
				back[e.Seq], waits[e.Deployment] = order[original[e.Deployment]], e.Seq
			case record.StageStarted:
				delete(waits, e.Deployment)
			}
		}
		switch {
		case record.RedoOf(e) != nil:
			original[e.Deployment], again[e.Deployment] = original[record.RedoOf(e).Of], true
		case e.Name == record.PipelineStarted && record.RollbackOf(e) == nil:
			order[e.Deployment], original[e.Deployment] = len(order)+1, e.Deployment
		case e.Name == record.PipelineStarted:
			info := record.RollbackOf(e)
			original[e.Deployment] = info.Original
			if info.Target == stage {
				back[e.Seq], waits[e.Deployment] = order[info.Original], e.Seq
			}
		case e.Name == record.StageFinished && e.Target == stage:
			passed[original[e.Deployment]] = e.Seq
		case e.Name == record.StageFailed && e.Target == stage && again[e.Deployment]:
			failed[original[e.Deployment]] = e.Seq
		}
	}
	for id, seq := range passed {
		behind := func(at int64) bool { return at > seq && back[at] < order[id] }
		if failed[id] <= seq && !slices.ContainsFunc(slices.Collect(maps.Keys(back)), behind) {
			taken = append(taken, id)
		}
	}
	slices.SortFunc(taken, func(a, b string) int { return order[b] - order[a] })
	return taken
}
