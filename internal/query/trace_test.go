package query

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
)

var traceBegins = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// tracesOf folds events, a minute apart: DEPLOYMENT REVISION TARGET EVENT DATA.
func tracesOf(lines ...string) *Traces {
	t := &Traces{}
	for i, line := range lines {
		f := strings.SplitN(line, " ", 5)
		e := deploylog.Event{Seq: int64(i + 1), Deployment: f[0], Revision: strings.Trim(f[1], "-"), Target: deploylog.Target(f[2]), Name: f[3], Attempt: 1, CreatedAt: minute(i + 1)}
		if len(f) > 4 {
			e.Data = json.RawMessage(f[4])
		}
		t.Apply(e)
	}
	return t
}

func minute(n int) time.Time { return traceBegins.Add(time.Duration(n) * time.Minute) }

const (
	digest   = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	commitOf = "3f2a9c1d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b"
)

func releasedEvents() []string {
	return []string{
		`d0 - pipeline/shop pipeline-defined {"definition":{"pipeline":"shop","stages":[{"name":"build"},{"name":"approve"},{"name":"prod"}]}}`,
		`d1 1.4.2 pipeline/shop pipeline-started {"by":"ann"}`,
		`d1 1.4.2 stage/shop/build stage-started`,
		`g - group/web-3 group-triggered {"name":"web","by":"ci","source":{"repository":"https://git.example/web","commit":"` + commitOf + `","exact":true},"commit":"` + commitOf + `"}`,
		`g - job/web-3/1 job-finished-successfully {"artifact":"` + digest + `"}`,
		`d1 1.4.2 stage/shop/build build-stage-received-image-artifact {"ref":"registry/web@` + digest + `"}`,
		`d1 1.4.2 stage/shop/build stage-finished-successfully`,
		`d1 1.4.2 stage/shop/approve stage-started`,
		`d1 1.4.2 stage/shop/approve stage-approved {"by":"bob","reason":"tested"}`,
		`d1 1.4.2 stage/shop/approve stage-finished-successfully`,
		`d1 1.4.2 stage/shop/prod stage-started`,
		`d1 1.4.2 stage/shop/prod stage-finished-successfully`,
		`d1 1.4.2 pipeline/shop pipeline-finished-successfully`,
		`d2 1.4.3 pipeline/shop pipeline-started {"by":"ann"}`,
		`d2 1.4.3 stage/shop/build stage-started`,
		`d2 1.4.3 stage/shop/build stage-failed {"error":"no disk"}`,
		`d2 1.4.3 pipeline/shop pipeline-failed {"error":"stage build failed"}`,
	}
}

func promotedEvents() []string {
	return []string{
		`p0 - pipeline/live promotion-pipeline-defined {"definition":{"pipeline":"live","stages":[{"name":"beta","environment":"live/beta"},{"name":"prod","environment":"live/prod"}]}}`,
		`e1 - environment/live/beta environment-finished-successfully`,
		`a1 1.4.2 stage/live/prod promotion-approved {"by":"eve"}`,
		`p1 1.4.2 stage/live/prod stage-started {"from":"beta","came":%COME%,"strategy":"pull-request"}`,
		`p1 1.4.2 stage/live/prod promotion-triggered {"answer":"https://git.example/deploy/pull/7"}`,
		`p1 1.4.2 stage/live/prod promotion-merged`,
		`p1 1.4.2 stage/live/prod stage-finished-successfully`,
	}
}

func traceOne(t *testing.T, all *Traces, text, pipeline string) Trace {
	t.Helper()
	found := must.Get(all.Trace(text, pipeline, minute(100)))(t)
	require.Len(t, found, 1)
	return found[0]
}

func TestTheTraceOfAReleasedRevision(t *testing.T) {
	r := traceOne(t, tracesOf(releasedEvents()...), "1.4.2", "")
	assert.Equal(t, []any{"shop", false, "finished", "ann", minute(2), minute(13)}, []any{r.Pipeline, r.Promoted, r.Status, r.By, r.Released, r.Ended})
	assert.Equal(t, []TracedCommit{{Repository: "https://git.example/web", Commit: commitOf, Exact: true, Group: "web-3", By: "ci"}}, r.Commits)
	assert.Equal(t, map[string]string{"image": "registry/web@" + digest}, r.Artifacts)
	require.Len(t, r.Stages, 3)
	assert.Equal(t, []TracedApproval{{By: "bob", At: minute(9), Event: 9, Reason: "tested"}}, r.Stages[1].Approvals)
	prod := r.Stages[2]
	assert.Equal(t, []any{"prod", "finished", minute(11), minute(12), int64(60_000), int64(88 * 60_000)}, []any{prod.Stage, prod.Status, prod.Began, prod.Seen, prod.TookMS, prod.StayedMS})
}

func TestTheTraceOfARevisionThatFailed(t *testing.T) {
	r := traceOne(t, tracesOf(releasedEvents()...), "1.4.3", "shop")
	assert.Equal(t, []string{"failed", "failed", "no disk", "pending"}, []string{r.Status, r.Stages[0].Status, r.Stages[0].Cause, r.Stages[2].Status})
	assert.Empty(t, r.Commits)
}

func TestTheTraceOfARevisionThatEndedOtherwise(t *testing.T) {
	lines := append(releasedEvents()[:1], `d1 2 pipeline/shop pipeline-started {"by":"ann"}`, `d1 2 stage/shop/approve stage-started`)
	for event, status := range map[string]string{"pipeline-cancelled": "cancelled", "pipeline-skipped": "skipped", "pipeline-superseded": "superseded"} {
		ended := append(slices.Clone(lines), `d1 2 pipeline/shop `+event)
		r := traceOne(t, tracesOf(ended...), "2", "shop")
		assert.Equal(t, []string{status, "pending", status, "pending"}, []string{r.Status, r.Stages[0].Status, r.Stages[1].Status, r.Stages[2].Status})
		r = traceOne(t, tracesOf(append(ended, `d1 2 pipeline/shop pipeline-retried`)...), "2", "shop")
		assert.Equal(t, []string{"running", "running"}, []string{r.Status, r.Stages[1].Status})
	}
	ends := append(slices.Clone(lines), `d1 2 pipeline/shop pipeline-end-requested {"ends":"cancelled"}`, `d1 2 stage/shop/prod stage-started`)
	r := traceOne(t, tracesOf(ends...), "2", "shop")
	assert.Equal(t, []string{"running", "cancelled", "running"}, []string{r.Status, r.Stages[1].Status, r.Stages[2].Status}, "a stage with when runs")
	live := append(promotedEvents()[:1], `p1 1 stage/live/prod stage-started {"from":"beta","came":1}`, `p2 2 stage/live/prod stage-started {"from":"beta","came":1}`)
	assert.Equal(t, "superseded", traceOne(t, tracesOf(live...), "1", "live").Stages[1].Status)
	pushed := append(slices.Clone(live), `p2 2 stage/live/prod promotion-merged {"answer":"branch main has it"}`)
	assert.Empty(t, traceOne(t, tracesOf(pushed...), "2", "live").Stages[1].PullRequest, "it was only pushed")
	live = append(live[:2], `p1 1 stage/live/prod stage-failed {"error":"given up","superseded_by":"2"}`)
	assert.Equal(t, "superseded", traceOne(t, tracesOf(live...), "1", "live").Stages[1].Status)
}

func promoted() *Traces {
	lines := releasedEvents()
	came := len(lines) + 2
	for _, line := range promotedEvents() {
		lines = append(lines, strings.ReplaceAll(line, "%COME%", strconv.Itoa(came)))
	}
	return tracesOf(lines...)
}

func TestTheTraceOfAPromotedRevision(t *testing.T) {
	all := promoted()
	r := traceOne(t, all, "1.4.2", "live")
	came := len(releasedEvents()) + 2
	assert.Equal(t, []any{true, "finished"}, []any{r.Promoted, r.Status})
	require.Len(t, r.Stages, 2)
	assert.Equal(t, []any{"beta", minute(came)}, []any{r.Stages[0].Stage, r.Stages[0].Seen})
	prod := r.Stages[1]
	assert.Equal(t, []any{"finished", minute(came + 2), minute(came + 4), minute(came + 5), "https://git.example/deploy/pull/7", "eve"},
		[]any{prod.Status, prod.Began, prod.Merged, prod.Seen, prod.PullRequest, prod.Approvals[0].By})

	found := must.Get(all.Trace("1.4.2", "", minute(100)))(t)
	assert.Len(t, found, 2, "in both pipelines")
}

func TestARevisionIsFoundByItsCommitAndRefusedWhereItMayBeAnother(t *testing.T) {
	all := promoted()
	assert.Equal(t, "1.4.2", traceOne(t, all, "3f2a9c1", "").Revision)
	for _, c := range []struct{ text, pipeline, want string }{
		{"1.4.", "", `revision "1.4." is ambiguous: it may be 1.4.2 of live, 1.4.2 of shop (commit ` + commitOf + `), 1.4.3 of shop`},
		{"1.4.4", "", `there is no revision "1.4.4"; did you mean 1.4.2?`},
		{"unknown", "", `there is no revision "unknown"; the newest are 1.4.3, 1.4.2`},
		{"1.4.2", "shp", `there is no pipeline "shp", did you mean shop?`},
	} {
		_, err := all.Trace(c.text, c.pipeline, minute(100))
		assert.EqualError(t, err, c.want)
		assert.ErrorIs(t, err, ErrNotFound)
	}
}

func TestAPipelineThatWasDeletedLeavesNothingToALaterOneOfItsName(t *testing.T) {
	lines := releasedEvents()
	lines = append(lines,
		`x - pipeline/shop pipeline-deleted {"by":"ann"}`,
		`d9 - pipeline/shop pipeline-defined {"definition":{"pipeline":"shop","stages":[{"name":"build"},{"name":"approve"},{"name":"prod"}]}}`,
		`d10 1.4.2 pipeline/shop pipeline-started {"by":"zoe"}`,
		`d1 1.4.2 stage/shop/prod stage-failed {"error":"late"}`)
	r := traceOne(t, tracesOf(lines...), "1.4.2", "")
	assert.Equal(t, []any{"running", "zoe", minute(len(lines) - 1)}, []any{r.Status, r.By, r.Released})
	assert.Empty(t, r.Artifacts)
	require.Len(t, r.Stages, 3)
	for _, s := range r.Stages {
		assert.Equal(t, TracedStage{Stage: s.Stage, Status: "pending"}, s)
	}

	gone := append(promotedEvents(), `x - pipeline/live promotion-pipeline-deleted {"by":"ann"}`)
	_, err := tracesOf(gone...).Trace("1.4.2", "live", minute(100))
	assert.EqualError(t, err, `there is no pipeline "live"`)
	again := tracesOf(append(gone, promotedEvents()[0], `p9 1.4.2 pipeline/live promotion-run-started`)...)
	r = traceOne(t, again, "1.4.2", "live")
	require.Len(t, r.Stages, 2)
	assert.Equal(t, TracedStage{Stage: "prod", Status: "pending"}, r.Stages[1])
}

func TestARevisionThatReturnsStaysSinceItsReturn(t *testing.T) {
	lines := []string{
		`d0 - pipeline/shop pipeline-defined {"definition":{"pipeline":"shop","stages":[{"name":"prod"}]}}`,
		`d1 1 pipeline/shop pipeline-started {"by":"ann"}`,
		`d1 1 stage/shop/prod stage-started`,
		`d1 1 stage/shop/prod stage-finished-successfully`,
		`d2 2 pipeline/shop pipeline-started {"by":"ann"}`,
		`d2 2 stage/shop/prod stage-started`,
		`d2 2 stage/shop/prod stage-finished-successfully`,
		`d3 1 pipeline/shop pipeline-started {"rollback":{"stage":"prod","target":"stage/shop/prod"}}`,
		`d3 1 stage/shop/prod stage-started`,
		`d3 1 stage/shop/prod stage-failed {"error":"no disk"}`,
		`d3 1 stage/shop/prod stage-started`,
		`d3 1 stage/shop/prod stage-finished-successfully`,
	}
	times := func(events int, revision string) []any {
		s := traceOne(t, tracesOf(lines[:events]...), revision, "").Stages[0]
		return []any{s.Status, s.Began, s.Seen, s.Left, s.TookMS / 60_000, s.StayedMS / 60_000}
	}
	assert.Equal(t, []any{"failed", minute(3), minute(4), minute(7), int64(1), int64(3)}, times(10, "1"), "the return failed")
	assert.Equal(t, []any{"finished", minute(9), minute(12), time.Time{}, int64(3), int64(88)}, times(12, "1"))
	assert.Equal(t, []any{"finished", minute(6), minute(7), minute(12), int64(1), int64(5)}, times(12, "2"))
}

func TestAPromotedRevisionThatReturnsStaysSinceItsReturn(t *testing.T) {
	seen := `x - stage/live/prod promotion-observed {"observed":{"hosts":[{"host":"h","revision":"%"}]}}`
	lines := []string{
		promotedEvents()[0],
		`e1 - environment/live/beta environment-finished-successfully`,
		`p1 1 stage/live/prod stage-started {"from":"beta","came":2}`,
		strings.ReplaceAll(seen, "%", "1"),
		`e2 - environment/live/beta environment-finished-successfully`,
		`p2 2 stage/live/prod stage-started {"from":"beta","came":5}`,
		`p1 1 stage/live/prod stage-started {"from":"beta","came":2}`, // did not come to beta again
		strings.ReplaceAll(seen, "%", "2"),
		strings.ReplaceAll(seen, "%", "1"),
		`e3 - environment/live/beta environment-finished-successfully`,
		`p3 1 stage/live/prod stage-started {"from":"beta","came":10}`,
	}
	times := func(events int, revision string) (all []time.Time) {
		for _, s := range traceOne(t, tracesOf(lines[:events]...), revision, "").Stages {
			all = append(all, s.Began, s.Seen, s.Left)
		}
		return all
	}
	none := time.Time{}
	assert.Equal(t, []time.Time{none, minute(2), minute(5), minute(7), minute(9), none}, times(9, "1"))
	assert.Equal(t, []time.Time{none, minute(5), none, minute(6), minute(8), minute(9)}, times(9, "2"))
	assert.Equal(t, []time.Time{none, minute(10), none, minute(7), minute(9), none}, times(11, "1"))
	assert.Equal(t, []time.Time{none, minute(5), minute(10), minute(6), minute(8), minute(9)}, times(11, "2"))
}

func TestWhatIsDoneAgainDoesNotEndTheRevision(t *testing.T) {
	released := releasedEvents()[:13]
	for _, begins := range []string{
		`{"rollback":{"stage":"prod","target":"stage/shop/prod"}}`,
		`{"redo":{"what":"rerun","stage":"prod","target":"stage/shop/prod","of":"d1"}}`,
		`{"redo":{"what":"repair","stage":"prod","target":"stage/shop/prod","of":"d1","hosts":["host/shop/prod/h"]}}`,
	} {
		began := append(slices.Clone(released), `d9 1.4.2 pipeline/shop pipeline-started `+begins, `d9 1.4.2 stage/shop/prod stage-started`)
		for _, c := range []struct {
			status string
			ends   []string
		}{
			{"failed", []string{`d9 1.4.2 stage/shop/prod stage-failed {"error":"no disk"}`, `d9 1.4.2 pipeline/shop pipeline-failed {"error":"stage prod failed"}`}},
			{"finished", []string{`d9 1.4.2 pipeline/shop pipeline-cancelled {"by":"bob"}`}},
			{"finished", []string{`d9 1.4.2 pipeline/shop pipeline-superseded {"superseded_by":"1.4.3"}`}},
			{"running", []string{`d9 1.4.2 pipeline/shop pipeline-cancelled`, `d9 1.4.2 pipeline/shop pipeline-retried`, `d9 1.4.2 stage/shop/prod stage-started`}},
		} {
			r := traceOne(t, tracesOf(append(slices.Clone(began), c.ends...)...), "1.4.2", "")
			assert.Equal(t, []any{"finished", minute(13), "ann", c.status, minute(12)}, []any{r.Status, r.Ended, r.By, r.Stages[2].Status, r.Stages[2].Seen}, "%s, %s", begins, c.ends)
		}
	}
	failed := append(slices.Clone(releasedEvents()), `d9 1.4.3 pipeline/shop pipeline-started {"redo":{"what":"rerun","stage":"approve","target":"stage/shop/approve","of":"d2"}}`,
		`d9 1.4.3 stage/shop/approve stage-started`, `d9 1.4.3 stage/shop/approve stage-finished-successfully`, `d9 1.4.3 pipeline/shop pipeline-finished-successfully`)
	r := traceOne(t, tracesOf(failed...), "1.4.3", "")
	assert.Equal(t, []any{"failed", minute(17), "finished"}, []any{r.Status, r.Ended, r.Stages[1].Status})
}

func TestWhatASchedulerRecordsIsNobodysApproval(t *testing.T) {
	lines := append(slices.Clone(releasedEvents()[:8]),
		`a1 1.4.2 stage/shop/approve stage-approval-given {"by":"bob","approval":{"deployment":"d1","attempt":1,"carries":""}}`,
		`d1 1.4.2 stage/shop/approve stage-approved`)
	s := traceOne(t, tracesOf(lines...), "1.4.2", "").Stages[1]
	assert.Equal(t, []TracedApproval{{By: "bob", At: minute(9), Event: 9}}, s.Approvals)
	assert.Equal(t, int64(10), s.Event)
}

func TestOnlyThePromotionByPullRequestHasOne(t *testing.T) {
	for strategy, want := range map[string]string{"webhook": "", "": "", "pull-request": "https://ci.example/job/7"} {
		r := traceOne(t, tracesOf(promotedEvents()[0], `p1 1.4.2 stage/live/prod stage-started {"from":"beta","strategy":"`+strategy+`"}`,
			`p1 1.4.2 stage/live/prod promotion-triggered {"answer":"https://ci.example/job/7"}`), "1.4.2", "")
		assert.Equal(t, want, r.Stages[1].PullRequest, "strategy %q", strategy)
	}
}
