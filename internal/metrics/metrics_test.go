package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/metrics"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

func answer(t *testing.T, h http.Handler) string {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code, "%d %s", w.Code, w.Body)
	return w.Body.String()
}

func TestMetricsFollowTheLog(t *testing.T) {
	log := must.Get(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "log.db"), sqlite.Options{}))(t)
	defer log.Close()
	m := metrics.New(log, "1.2.3", time.Now)
	h := m.Measure(m.Handler())
	if text := answer(t, h); !strings.Contains(text, "deployster_log_events 0\n") || !strings.Contains(text, `deployster_info{version="1.2.3"} 1`) {
		t.Errorf("of an empty log:\n%s", text)
	}
	require.NoError(t, must.Fail(log.Append(t.Context(), deploylog.Event{Deployment: "d", Target: "run/m.yaml", Name: "run-started", Attempt: 1})))
	m.Recorded(deploylog.Event{Target: "run/m.yaml", Name: "run-started"})
	m.Retried("one")
	m.RunBegun("apply")
	m.RunEnded("apply", "failed", 90*time.Second)
	text := answer(t, h)
	for _, want := range []string{
		"deployster_log_events 1\n", `deployster_events_total{event="run-started",kind="run"} 1`, `deployster_step_retries_total{pipeline="one"} 1`,
		`deployster_runs_begun_total{command="apply"} 1`, `deployster_run_duration_seconds_bucket{command="apply",outcome="failed",le="60"} 0`,
		`deployster_run_duration_seconds_bucket{command="apply",outcome="failed",le="300"} 1`, `deployster_run_duration_seconds_sum{command="apply",outcome="failed"} 90`,
		`deployster_http_request_duration_seconds_count{code="200",method="get"} 1`,
	} {
		assert.Contains(t, text, want)
	}
}

// A pipeline that promotes by observed state is told of as those are whose revisions are
// released, and how many of its promotions failed last.
func TestMetricsOfPromotion(t *testing.T) {
	log := must.Get(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "log.db"), sqlite.Options{}))(t)
	defer log.Close()
	parsed, err := definition.Parse("shop.yaml", []byte("pipeline: shop\npromotion: {policy: single, revision: task.vars.v}\nstages: [{name: dev, environment: dev}, {name: prod, environment: prod, manual: true}]\n"))
	require.NoError(t, err)
	for i, c := range []promotion.Command{
		promotion.Define{Definition: parsed, ID: "1", By: "eve"}, promotion.StopLine{ID: "2", By: "eve", Reason: "a fire"},
	} {
		require.NoError(t, must.Fail(promotions.New(log, time.Now).Change(t.Context(), "shop", i == 0, func(p *promotion.State) ([]deploylog.Event, error) {
			return p.Propose(c, promotion.Observed{}, time.Now())
		})))
	}
	text := answer(t, metrics.New(log, "1.2.3", time.Now).Handler())
	for _, want := range []string{
		`deployster_pipeline_revisions_in_progress{pipeline="shop"} 0`, `deployster_pipeline_pauses{pipeline="shop"} 1`,
		`deployster_pipeline_promotions_failed{pipeline="shop"} 0`,
	} {
		assert.Contains(t, text, want+"\n", "%s is not in\n%s", want, text)
	}
}

func TestMetricsOfALogThatCannotBeReadAreNone(t *testing.T) {
	log := must.Get(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "log.db"), sqlite.Options{}))(t)
	m := metrics.New(log, "1.2.3", time.Now)
	require.NoError(t, log.Close())
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	assert.Equal(t, http.StatusInternalServerError, w.Code, "%d\n%s", w.Code, w.Body)
}
