package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// promise is what one walk checks, besides what every walk does. To check all promises in
// each walk would cost ten times as much.
type promise struct {
	begin func(*world)              // defines the pipeline
	act   func(*world, []step.Step) // lets something happen
	each  func(*world, []step.Step) // checks what may be done
	rests bool                      // it goes on until nothing can be done; the clock stands still then
	end   func(*world)              // checks what became of it
}

// promises has those that find the most more than once. What is nil is as in the first.
var promises = []promise{
	{begin: (*world).beginAny, act: (*world).act}, {}, {}, {},
	{begin: (*world).beginLenient, act: (*world).actAgain},
	{begin: (*world).beginLenient, act: (*world).actAgain},
	{act: (*world).actTroubled},
	{begin: (*world).beginLenient, act: (*world).actTroubled},
	{each: (*world).checkExplained, rests: true, end: (*world).checkNamed},
	{act: (*world).actOrDoAgain, each: (*world).checkTaken},
	{begin: (*world).beginLenient, act: (*world).actAndShorten, end: (*world).checkFolded},
	{act: (*world).actAndShorten, end: (*world).checkFolded, rests: true},
	{begin: (*world).beginSteady, rests: true, end: (*world).checkBatches},
}

// Whatever happens, the machine picks the steps that the algorithm of the seed does, and
// keeps one more promise that is drawn.
func TestWhateverHappensThePipelineGoesAsTheSeedSays(t *testing.T) {
	cases(t, 6000, func(t *rapid.T) {
		w := newWorld(t)
		p, first := promises[w.n(len(promises), "promise")], promises[0]
		if p.begin == nil {
			p.begin = first.begin
		}
		if p.act == nil {
			p.act = first.act
		}
		p.begin(w)
		decide := func() []step.Step {
			steps := w.decide()
			if p.each != nil {
				p.each(w, steps)
			}
			return steps
		}
		for range 10 + rapid.IntRange(0, 60).Draw(t, "length") {
			if !p.rests && w.n(4, "time passes") == 0 { // and the clock may be set back
				w.now = w.now.Add(time.Duration(w.n(100, "seconds")-20) * time.Second)
			}
			p.act(w, decide())
		}
		if p.rests {
			w.comeToRest(decide)
		}
		w.checkKept()
		if p.end != nil {
			p.end(w)
		}
	})
}

func (w *world) beginAny()    { w.define(w.pipeline()); w.setMembers() }
func (w *world) beginSteady() { w.steady = true; w.beginAny() }

// beginLenient begins with hosts in every group, some of which may fail, and a revision.
func (w *world) beginLenient() {
	d := w.pipeline()
	members := map[string][]string{}
	for _, g := range d.Groups() {
		g.MaxFailed = budget.Budget{Count: 1 + w.n(2, "may fail")}
		members[g.Name] = someHosts
	}
	w.define(d)
	require.NoError(w, w.propose(SetMembers{Members: members, ID: w.id()}))
	w.release(0)
}

func (w *world) actAgain(steps []step.Step) {
	switch {
	case w.n(6, "again") == 0:
		w.doAgain()
	case w.n(12, "something else") == 0:
		w.act(steps)
	case len(steps) > 0:
		w.end(steps[w.n(len(steps), "step")])
	default:
		w.supply()
	}
}

// actTroubled cancels, retries and fails often, also what was begun long ago.
func (w *world) actTroubled(steps []step.Step) {
	switch trouble := w.n(8, "trouble"); {
	case len(w.state.Registrations()) == 0:
		w.release(0)
	case trouble == 0:
		_ = w.propose(Cancel{Revision: w.anyRevision()})
	case trouble <= 2:
		_ = w.propose(Retry{Revision: w.anyRevision()})
	case trouble == 3 && len(steps) > 0:
		w.begin(steps[w.n(len(steps), "step")])
	case trouble == 4 && len(w.running) > 0:
		i := w.n(len(w.running), "running")
		s := w.running[i]
		w.running = slices.Delete(w.running, i, i+1)
		if s.Work() {
			w.append(s.Failed("exit code 3", ""))
		}
	default:
		w.act(steps)
	}
}

func (w *world) actOrDoAgain(steps []step.Step) {
	if w.n(4, "again") == 0 {
		w.doAgain()
		return
	}
	w.forgetMarkers()
	w.act(steps)
}

// actAndShorten keeps what is needed of the log now and then.
func (w *world) actAndShorten(steps []step.Step) {
	if w.act(steps); w.n(8, "snapshot") > 0 {
		return
	}
	w.short, w.upTo = neededOf(w.state, append(w.short, w.log[w.upTo:]...)), len(w.log)
	w.wantSame(w.short)
}

// decide returns what may be done, which is what the algorithm of the seed picks.
func (w *world) decide() []step.Step {
	w.oracle.now = w.now
	steps := slices.Collect(w.state.Decide(w.now, Can{}))
	if got, want := names(steps), w.oracle.names(); !slices.Equal(got, want) {
		w.Fatalf("the machine picks %q,\nthe seed %q, after\n%s", got, want, w.story())
	}
	return steps
}

func (w *world) comeToRest(decide func() []step.Step) {
	for _, s := range w.running {
		w.complete(s)
	}
	for range 1000 {
		if steps := decide(); len(steps) > 0 {
			w.complete(steps[0])
			continue
		}
		left := w.state.Left(func(step.Work) bool { return false })
		if len(left) == 0 {
			return
		}
		for _, work := range left {
			w.append(work.Settled(w.id(), "somebody"))
		}
	}
	w.Fatalf("it never comes to rest:\n%s", w.story())
}

func names(steps []step.Step) []string {
	var list []string
	for _, s := range steps {
		list = append(list, s.Deployment+" "+string(s.Target)+" "+s.Event)
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

// checkExplained holds that Explain finds ready what may be done, and blames events that happened.
func (w *world) checkExplained(steps []step.Step) {
	var ready []string
	for _, r := range w.state.Explain(w.state.target) {
		if r.Code == reason.Ready {
			ready = append(ready, r.Deployment+" "+string(r.Target)+" "+r.Event)
		}
		if r.Seq > int64(len(w.log)) || r.Seq > 0 && (w.log[r.Seq-1].Name != r.ByEvent || w.log[r.Seq-1].Target != r.By) {
			w.Fatalf("%q blames event %d, which is not %s of %s:\n%s", r.Message(), r.Seq, r.ByEvent, r.By, w.story())
		}
	}
	slices.Sort(ready)
	require.Equal(w, names(steps), ready, "Explain finds ready")
}

// checkNamed holds that Explain names what each deployment that has not ended waits for.
func (w *world) checkNamed() {
	for _, d := range w.state.deployments {
		named := slices.ContainsFunc(w.state.Explain(w.state.target), func(r reason.Reason) bool {
			return r.Deployment == d.ID && r.Code != reason.NotNew && r.Code != reason.LeftOut && r.Code != reason.CameLater
		})
		if !named {
			w.Fatalf("%s rests, and Explain names nothing but %q:\n%s", d.ID, texts(w.state.Explain(w.state.target)), w.story())
		}
	}
}

func (w *world) checkKept() {
	for _, r := range w.state.Registrations() {
		d := w.state.byID[r.Deployment]
		require.True(w, d == nil || r.Status != deployment.Finished, "%s has finished and is kept", r.Revision)
	}
}

// checkBatches holds that what a batch spans is done by one revision after the other, as the log alone shows.
func (w *world) checkBatches() {
	d := w.state.Definition()
	batches := slices.Clone(d.Batches)
	for _, s := range d.Stages {
		batches = append(batches, definition.Batch{From: s.Name, To: s.Name})
	}
	for _, b := range batches {
		if problem := w.overlap(d, b); problem != "" {
			w.Fatalf("batch %s to %s: %s\n%s", b.From, b.To, problem, w.story())
		}
	}
}

// overlap finds two revisions that are in a batch at once. What does a stage again is in all
// that the stage belongs to, until it ends.
func (w *world) overlap(d *definition.Definition, b definition.Batch) string {
	from, to := record.StageTarget("p", b.From), record.StageTarget("p", b.To)
	at := func(name string) int {
		return slices.IndexFunc(d.Stages, func(s definition.Stage) bool { return s.Name == name })
	}
	within, over, revisions := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, e := range w.log {
		if e.Name == record.PipelineStarted {
			revisions[e.Deployment] = e.Revision
		}
		redo := record.RedoOf(e)
		switch {
		case redo != nil:
			within[e.Deployment] = follows(d, at(b.From), at(redo.Stage)) && follows(d, at(redo.Stage), at(b.To))
			revisions[e.Deployment] += " again"
		case strings.HasSuffix(revisions[e.Deployment], " again") && e.Name == record.StageFinished:
			within[e.Deployment] = false
		case strings.HasSuffix(revisions[e.Deployment], " again") && e.Target.Kind() == "stage":
		case e.Target == from && e.Name == record.StageStarted:
			within[e.Deployment] = true
		case e.Target == to && e.Name == record.StageFinished:
			within[e.Deployment] = false
		case e.Name == record.PipelineFailed || e.Name == record.PipelineCancelled || e.Name == record.PipelineSkipped || e.Name == record.PipelineSuperseded:
			over[e.Deployment] = true
		case e.Name == record.PipelineRetried:
			over[e.Deployment] = false
		}
		in := inside(b, within, over, revisions)
		if len(in) > 1 {
			slices.Sort(in)
			return fmt.Sprintf("after event %d it holds %v", e.Seq, in)
		}
	}
	return ""
}

// inside are the revisions that are in a batch. What does a stage of one again may be so beside
// it, but for the stage itself.
func inside(b definition.Batch, within, over map[string]bool, revisions map[string]string) (in []string) {
	for id := range within {
		name := strings.TrimSuffix(revisions[id], " again")
		if within[id] && !over[id] && (b.From == b.To || !slices.Contains(in, name)) {
			in = append(in, name)
		}
	}
	return in
}

func (w *world) anyRevision() string {
	return w.state.Registrations()[w.n(len(w.state.Registrations()), "revision")].Revision
}

func (w *world) act(steps []step.Step) {
	switch w.n(10, "person") {
	case 0:
		w.pauseOrResume()
	case 1:
		w.rollBack()
	case 2:
		w.doAgain()
	default:
		w.happen(steps)
	}
}

func (w *world) happen(steps []step.Step) {
	registered := len(w.state.Registrations())
	switch what := w.n(25, "act"); {
	case what == 0 || registered == 0:
		w.release(registered)
	case (what == 1 || what == 2) && !w.steady:
		w.define(w.change(w.state.Definition()))
	case what == 3:
		w.setMembers()
	case what == 4 || what == 5:
		w.artifact()
	case what == 6:
		w.judge()
	case what == 7 && w.giveUp():
	case what == 8:
		_ = w.propose(Retry{Revision: w.anyRevision()})
	case what >= 22:
		w.trouble(what, steps)
	case what == 9 && len(steps) > 0:
		w.begin(steps[w.n(len(steps), "step")])
	case what <= 11 && len(w.running) > 0:
		w.end(w.running[w.n(len(w.running), "running")])
	case len(steps) > 0:
		w.end(steps[w.n(len(steps), "step")])
	}
}

// artifact lets one come, or be reported as not built.
func (w *world) artifact() {
	revision, kind := w.anyRevision(), someKinds[w.n(3, "kind")]
	if w.n(8, "is not built") == 0 {
		_ = w.propose(FailArtifact{Revision: revision, Kind: kind, By: "ci"})
		return
	}
	_ = w.propose(ReceiveArtifact{Revision: revision, Kind: kind, Ref: "ref"})
}

func (w *world) judge() {
	stages := w.state.Definition().Stages
	revision, stage := w.anyRevision(), stages[w.n(len(stages), "stage")].Name
	if w.n(4, "is rejected") == 0 {
		_ = w.propose(Reject{Revision: revision, Stage: stage, By: "ann"})
		return
	}
	_ = w.propose(Approve{Revision: revision, Stage: stage, By: []string{"ann", "bob", "eve"}[w.n(3, "who")], ID: w.id()})
}

func (w *world) begin(s step.Step) {
	if s.Event == record.StageStarted {
		return
	}
	w.running = append(w.running, s)
	if s.Work() {
		w.append(w.state.Begun(w.id(), []step.Step{s}))
	}
}

// trouble lets work end without an event of its step: a try fails, whoever does it dies,
// and who comes after that finds out what became of it. Or a group holds, which is confirmed.
func (w *world) trouble(what int, steps []step.Step) {
	if what == 24 {
		_ = w.propose(Confirm{Group: someGroups[w.n(len(someGroups), "group")], ID: w.id()})
		return
	}
	run := []string{"", "", "R1"}[w.n(3, "run that may be at work")]
	switch what := w.n(4, "trouble"); {
	case what == 0 && len(w.running) > 0:
		w.running = w.running[1:]
	case what == 1:
		for _, left := range w.state.Left(w.mine) {
			if run == "" {
				w.append(left.Settled(w.id(), "somebody"))
			} else {
				w.append(left.Lost(w.id(), "somebody", run, "no answer"))
			}
		}
	case len(steps) > 0:
		if s := steps[w.n(len(steps), "step")]; s.Work() {
			w.append(s.TryFailed(w.id(), "somebody", run, "exit code 3"))
		}
	}
}

func (w *world) giveUp() bool {
	switch {
	case w.n(3, "skip") == 0:
		_ = w.propose(Skip{Revision: w.anyRevision()})
	case w.n(3, "really") == 0:
		_ = w.propose(Cancel{Revision: w.anyRevision()})
	default:
		return false
	}
	return true
}

func (w *world) mine(o step.Work) bool {
	return slices.ContainsFunc(w.running, func(s step.Step) bool {
		return s.Deployment == o.Deployment && s.Target == o.Target && s.Event == o.Event
	})
}

func (w *world) release(registered int) {
	if registered >= 3 {
		return
	}
	id := w.id()
	if err := w.propose(Release{Fix: w.n(3, "fix") == 0, Revision: fmt.Sprintf("r%d", registered+1), Carries: w.files(w.state.Definition(), id), ID: id}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) end(s step.Step) {
	w.running = slices.DeleteFunc(w.running, func(o step.Step) bool {
		return o.Deployment == s.Deployment && o.Target == s.Target && o.Event == s.Event
	})
	if s.Work() && w.n(6, "fails") == 0 {
		w.append(s.Failed("exit code 3", ""))
		return
	}
	w.complete(s)
}

func (w *world) pauseOrResume() {
	stage := ""
	if d := w.state.Definition(); w.n(3, "stage") > 0 {
		stage = d.Stages[w.n(len(d.Stages), "which")].Name
	}
	var c Command = PausePipeline{Stage: stage, ID: w.id(), By: "ann"}
	if w.n(3, "resume") > 0 {
		c = ResumePipeline{Stage: stage, ID: w.id(), By: "bob"}
	}
	rolling := slices.ContainsFunc(w.oracle.revisions, func(r *revision) bool { return !r.over && r.only == stage && stage != "" })
	var refused *refusal.Error
	switch err := w.propose(c); {
	case errors.As(err, &refused) && refused.Code == RollbackRunning && rolling:
	case err != nil:
		w.Fatal(err)
	}
}

func (w *world) supply() {
	for _, r := range w.state.Registrations() {
		for _, kind := range someKinds {
			_ = w.propose(ReceiveArtifact{Revision: r.Revision, Kind: kind, Ref: "ref"})
		}
		for _, s := range w.state.Definition().Stages {
			for _, by := range []string{"ann", "bob", "eve"} {
				_ = w.propose(Approve{Revision: r.Revision, Stage: s.Name, By: by, ID: w.id()})
			}
		}
	}
}

func (w *world) doAgain() {
	stages := w.state.Definition().Stages
	if len(w.state.Registrations()) == 0 {
		return
	}
	stage := stages[w.n(len(stages), "stage")].Name
	broken := slices.DeleteFunc(slices.Clone(stages), func(s definition.Stage) bool { // there is not always something to repair
		return len(w.state.visits[record.StageTarget("p", s.Name)].ending.Failed) == 0
	})
	if len(broken) == 0 && w.n(2, "repair") > 0 {
		_ = w.propose(Rerun{Stage: stage, Revision: w.anyRevision(), ID: w.id()})
		return
	}
	var hosts []string
	if len(broken) > 0 {
		stage = broken[w.n(len(broken), "broken stage")].Name
	}
	if w.n(2, "a certain host") == 0 {
		hosts = []string{someHosts[w.n(len(someHosts), "host")]}
	}
	_ = w.propose(Repair{Stage: stage, Hosts: hosts, ID: w.id()})
}

func (w *world) rollBack() {
	if w.steady || len(w.state.Registrations()) == 0 || w.n(2, "really") == 0 {
		return
	}
	stages, revision := w.state.Definition().Stages, ""
	if w.n(2, "to a certain one") == 0 {
		revision = w.anyRevision()
	}
	_ = w.propose(Rollback{Stage: stages[w.n(len(stages), "stage")].Name, Revision: revision, ID: w.id()})
}

// forgetMarkers forgets what takes no work of deployments that have ended: a scheduler records that at once, or never.
func (w *world) forgetMarkers() {
	w.running = slices.DeleteFunc(w.running, func(s step.Step) bool { return !s.Work() && !w.state.InProgress(s.Deployment) })
}
