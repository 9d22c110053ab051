package pipeline

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

// newBroken is the ant gateway, on whose host of prod revision v1 broke.
func newBroken(t *testing.T, d *definition.Definition) *tale {
	t.Helper()
	w := newTale(t, d, antHosts)
	w.fails[string(onProd)+" "+deployed] = "disk full"
	w.release("v1", "x86", "aarch64", "raspbian")
	w.idle()
	require.True(t, w.happened("v1", prod, record.StageFailed), "v1 did not fail")
	delete(w.fails, string(onProd)+" "+deployed)
	w.release("v2", "x86", "aarch64", "raspbian")
	w.idle()
	return w
}

func (w *tale) finished(revision string) {
	w.Helper()
	assert.True(w, w.happened(revision, w.state.target, record.PipelineFinished),
		"%s has not finished: %q", revision, texts(w.state.Explain(w.state.target)))
}

func TestALaterRevisionDoesNotEnterAStageInWhichOneFailed(t *testing.T) {
	w := newBroken(t, antGateway(deployed))
	why := w.state.Explain(prod)
	last := why[len(why)-1]
	assert.Contains(t, last.Cause, "disk full")
	assert.Equal(t, fmt.Sprintf("kept out: revision v1 failed in stage prod (event %d)", w.seq("v1", prod, record.StageFailed)), last.Message())
	assert.Equal(t, []any{"v2", reason.AwaitsFix, record.StageFailed, prod}, []any{last.Revision, last.Code, last.ByEvent, last.By})
	assert.True(t, last.Blocking(), "status shows it")
	assert.Len(t, w.state.Stops(), 1)
}

// A fix goes by those that wait, and these must not undo it.
func TestAFixGoesByThoseThatWait(t *testing.T) {
	w := newBroken(t, antGateway(deployed))
	w.do(Release{Revision: "v3", Fix: true, ID: w.id()})
	for _, kind := range []string{"x86", "aarch64", "raspbian"} {
		w.do(ReceiveArtifact{Revision: "v3", Kind: kind})
	}
	w.idle()
	w.finished("v3")
	assert.Equal(t, deployment.PassedOver, w.registered("v2").Status)
	assert.Contains(t, w.registered("v2").Cause, "revision v3, a fix, went by it into stage ")
	w.refused(Retry{Revision: "v2"}, TooLateToRetry)
	w.release("v4", "x86", "aarch64", "raspbian")
	assert.True(t, w.registered("v3").Fix)
	assert.False(t, w.registered("v4").Fix)
}

// What a fix goes by finishes what it has begun, and enters nothing more.
func TestWhatAFixGoesByIsNotLeftHalfDone(t *testing.T) {
	d := &definition.Definition{Name: "p", Stages: []definition.Stage{run("build"), run("a", "build"), run("b", "build"), run("c", "build")}}
	w := newTale(t, d, nil)
	b := stageOf("b")
	w.fails[string(b)+" "+record.StageApplied] = "disk full"
	w.release("1")
	w.idle()
	w.fails = nil
	w.release("2")
	w.until("2", stageOf("a"), record.StageStarted)
	w.do(PausePipeline{Stage: "c", ID: w.id()}) // which 2 has not entered
	w.do(Release{Revision: "3", Fix: true, ID: w.id()})
	for _, event := range []string{record.StageStarted, record.StageApplied, record.StageFinished} {
		w.complete("3", stageOf("build"), event)
	}
	w.complete("3", b, record.StageStarted)
	w.do(ResumePipeline{Stage: "c", ID: w.id()})
	w.mayDo("2 stage-manifest-applied stage/a", "3 stage-manifest-applied stage/b", "3 stage-started stage/c")
	why := w.whyOf("2", stageOf("c"))
	assert.Equal(t, []any{reason.AwaitsSkip, "3", w.seq("3", b, record.StageStarted)}, []any{why.Code, why.Holder, why.Seq})
	w.idle()
	w.finished("3")
	assert.Equal(t, deployment.PassedOver, w.registered("2").Status)
}

// whyOf is the first reason that Explain gives for a revision at a target.
func (w *tale) whyOf(revision string, t deploylog.Target) reason.Reason {
	w.Helper()
	all := w.state.Explain(t)
	i := slices.IndexFunc(all, func(r reason.Reason) bool { return r.Revision == revision })
	require.GreaterOrEqual(w, i, 0, "nothing keeps %s, but %q", revision, texts(all))
	return all[i]
}

// A revision that is in a batch which a failure does not let it leave is skipped for the fix
// that waits for this batch.
func TestWhatCannotLeaveABatchIsSkippedForAFix(t *testing.T) {
	w := newTale(t, &definition.Definition{
		Name: "p", Stages: []definition.Stage{run("a"), run("b", "a"), run("c", "b"), run("d", "c")},
		Batches: []definition.Batch{{From: "a", To: "c"}, {From: "b", To: "d"}},
	}, nil)
	w.release("1")
	w.until("1", stageOf("d"), record.StageStarted)
	w.release("2")
	w.complete("2", stageOf("a"), record.StageStarted)
	w.fails[string(stageOf("d"))+" "+record.StageApplied] = "disk full"
	w.idle()
	w.fails = nil
	w.do(PausePipeline{Stage: "a", ID: w.id()}) // the fix does not wait for 2 then
	w.do(Release{Revision: "3", Fix: true, ID: w.id()})
	w.mayDo()
	w.do(ResumePipeline{Stage: "a", ID: w.id()})
	w.mayDo("2 pipeline-skipped pipeline")
	failed := w.seq("1", stageOf("d"), record.StageFailed)
	because := fmt.Sprintf("revision 3, a fix, waits at stage a for the batch up to stage c, which this one cannot leave: revision 1 failed in stage d (event %d)", failed)
	got := strings.Join(texts(w.state.Explain(w.state.target)), "\n")
	assert.Contains(t, got, because)
	assert.Contains(t, got, "3 stage/p/a stage-started: awaits-batch b c 2 stage/p/b")
	w.idle()
	w.finished("3")
	w.wantEnded("2", deployment.PassedOver, "", because)
}

// What it is at work in ends before it is skipped, and it begins nothing else.
func TestWhatCannotLeaveABatchIsNotLeftHalfDone(t *testing.T) {
	w := newTale(t, &definition.Definition{
		Name: "p", Stages: []definition.Stage{run("a"), run("b", "a"), run("x", "a"), run("y", "a"), run("c", "b", "x", "y"), run("d", "c")},
		Batches: []definition.Batch{{From: "a", To: "c"}, {From: "b", To: "d"}},
	}, nil)
	w.release("1")
	w.until("1", stageOf("d"), record.StageStarted)
	w.release("2")
	for _, event := range []string{record.StageStarted, record.StageApplied, record.StageFinished} {
		w.complete("2", stageOf("a"), event)
	}
	w.do(PausePipeline{Stage: "y", ID: w.id()})
	w.complete("2", stageOf("x"), record.StageStarted)
	w.fails[string(stageOf("d"))+" "+record.StageApplied] = "disk full"
	w.until("1", w.state.target, record.PipelineFailed)
	w.fails = nil
	w.do(Release{Revision: "3", Fix: true, ID: w.id()})
	w.do(ResumePipeline{Stage: "y", ID: w.id()})
	w.mayDo("2 stage-manifest-applied stage/x")
	why, failed := w.whyOf("2", stageOf("y")), w.seq("1", stageOf("d"), record.StageFailed)
	assert.Equal(t, reason.AwaitsSkip, why.Code)
	assert.Equal(t, fmt.Sprintf("kept out: revision 3, a fix, waits at stage a for the batch up to stage c, which this one cannot leave because "+
		"revision 1 failed in stage d, and it is skipped when what it has begun is done (event %d)", failed), why.Message())
	w.idle()
	w.finished("3")
	assert.Equal(t, deployment.PassedOver, w.registered("2").Status)
}

// When a fix has come and nothing breaks any more, everything ends, whatever happened before.
func TestWithAFixEverythingEnds(t *testing.T) {
	cases(t, 1500, func(t *rapid.T) {
		w := newWorld(t)
		d := &definition.Definition{Name: "p", Supersede: w.n(3, "supersede") == 0}
		for i, name := range []string{"a", "b", "c", "d", "e"} {
			s := run(name)
			if i > 0 {
				s.After = []string{d.Stages[i-1].Name}
			}
			if goes := w.n(4, "stops") > 0; !goes {
				s.StopOnFailure = &goes
			}
			d.Stages = append(d.Stages, s)
		}
		for range w.n(4, "batches") {
			from := w.n(4, "from")
			d.Batches = append(d.Batches, definition.Batch{From: d.Stages[from].Name, To: d.Stages[from+1+w.n(4-from, "so far")].Name})
		}
		w.define(d)
		revision := 0
		release := func(fix bool) {
			revision++
			require.NoError(w, w.propose(Release{Revision: strconv.Itoa(revision), Fix: fix, ID: w.id()}))
		}
		release(false)
		for range w.n(60, "length") {
			steps := w.decide()
			switch what := w.n(12, "what"); {
			case what == 0 && revision < 6:
				release(w.n(4, "fix") == 0)
			case what == 1:
				_ = w.propose(Retry{Revision: w.anyRevision()})
			case what == 2:
				w.giveUp()
			case len(steps) > 0:
				w.end(steps[w.n(len(steps), "step")])
			}
		}
		release(true)
		for range 1000 {
			steps := w.decide()
			if len(steps) == 0 {
				break
			}
			w.complete(steps[w.n(len(steps), "step")])
		}
		for _, d := range w.state.deployments {
			if d.Status == deployment.Running {
				w.Fatalf("%s does not end: %q\n%s", d.Revision, texts(w.state.Explain(w.state.target)), w.story())
			}
		}
	})
}
