package view

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/effect"
)

// largeLog has 20 stages of 100 hosts each, and an environment of 100, of 50 revisions.
var largeLog = sync.OnceValue(func() deploylog.Log {
	log := logtest.NewMemory().Open()
	events := querytest.Large(100, 50)
	if _, err := log.Append(context.Background(), events...); err != nil {
		panic(err)
	}
	return log
})

// largePipelines are the pipelines of that log, which no test changes.
var largePipelines = sync.OnceValue(func() *query.Pipelines {
	p := query.NewPipelines(largeLog(), func() time.Time { return querytest.Noon.Add(12 * time.Hour) })
	if err := p.Follow(context.Background(), 0); err != nil {
		panic(err)
	}
	return p
})

// wantFits demands that no line is wider than the terminal, and that nothing drives it.
func wantFits(t *testing.T, text string, width, height int) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	assert.True(t, height <= 0 || len(lines) < height, "%d lines leave no room for the prompt on a screen of %d", len(lines), height)
	for _, line := range lines {
		w := ansi.StringWidth(line)
		assert.True(t, width <= 0 || w <= width, "%d cells are more than %d: %s", w, width, line)
		if strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
			t.Errorf("a line drives the terminal: %q", line)
		}
	}
}

// sizes are those of terminals; the last is no terminal.
var sizes = [][2]int{{80, 24}, {80, 40}, {200, 50}, {20, 10}, {0, 0}}

// atEverySize writes something at every size, and compares those that are named with golden files.
func atEverySize(t *testing.T, name string, compared []string, show func(io.Writer, PlanOptions) error) {
	t.Helper()
	for _, size := range sizes {
		at := fmt.Sprintf("%s-%dx%d", name, size[0], size[1])
		t.Run(at, func(t *testing.T) {
			text := written(t, func(w io.Writer) error { return show(w, PlanOptions{Width: size[0], Height: size[1]}) })
			height := size[1]
			if height < 24 {
				height = 0 // there is no room for what matters
			}
			wantFits(t, text, size[0], height)
			if slices.Contains(compared, at) {
				golden(t, "large-"+at+".txt", text)
			}
		})
	}
}

func TestALargePipelineFitsTheScreen(t *testing.T) {
	p := largePipelines()
	status := must.Get(p.Status(false, false))(t)
	atEverySize(t, "status", []string{"status-80x24", "status-80x40", "status-0x0"}, func(w io.Writer, opts PlanOptions) error { return Pipeline(w, status[0], opts) })
}

func TestHostsThatAreAlikeShareARow(t *testing.T) {
	p := largePipelines()
	for _, all := range []bool{false, true} {
		status := must.Get(p.Status(true, all))(t)
		text := written(t, func(w io.Writer) error { return Pipeline(w, status[0], PlanOptions{Width: 80, Height: 24, All: all}) })
		wantFits(t, text, 80, 0)
		assert.Equal(t, all, strings.Count(text, "\n") > 1700, "more than 1700 lines")
		if !all {
			golden(t, "large-status-hosts-80.txt", text)
		}
	}
}

func TestTheExplanationOfALargePipelineFitsTheScreen(t *testing.T) {
	p := largePipelines()
	reasons := must.Get(p.Explain("pipeline/"+querytest.Pipeline, work.NewHosts("none.yaml"), false))(t)
	atEverySize(t, "explain", []string{"explain-80x24", "explain-80x40"}, func(w io.Writer, opts PlanOptions) error {
		return PipelineReasons(w, "pipeline/gateway", query.AlikeReasons(reasons, false), opts)
	})
}

// A change that concerns every host of every revision under way is shown on a screen, before
// the question.
func TestThePreviewOfALargePipelineFitsTheScreen(t *testing.T) {
	p := largePipelines()
	d := querytest.Definition()
	for i, s := range d.Stages {
		if s.Deploy != nil {
			d.Stages[i].Deploy.Steps = append(s.Deploy.Steps, definition.HostStep{Event: "host-restarted", Manifest: "restart.yaml"})
		}
	}
	var changes []effect.Change
	require.NoError(t, p.Ask(querytest.Pipeline, func(s *pipeline.State) (err error) {
		changes, err = s.Preview(&pipeline.Define{Definition: d}, nil)
		return err
	}))
	require.Greater(t, len(changes), 1000)
	atEverySize(t, "preview", []string{"preview-80x24", "preview-0x0"}, func(w io.Writer, opts PlanOptions) error {
		return PipelineChanges(w, query.AlikeChanges(changes, false), true, opts)
	})
	text := must.Get(json.Marshal(query.AlikeChanges(changes, false)))(t)
	assert.Less(t, len(text), 500_000, "bytes as JSON")
}

func TestALargeEnvironmentFitsTheScreen(t *testing.T) {
	e := query.NewEnvironments(largeLog(), func() time.Time { return querytest.Noon.Add(12 * time.Hour) })
	require.NoError(t, e.Follow(t.Context(), 0))
	reports := must.Get(e.Status())(t)
	atEverySize(t, "environment", []string{"environment-80x24", "environment-80x40"}, func(w io.Writer, opts PlanOptions) error {
		return Environment(w, reports[0], false, opts)
	})
	all := written(t, func(w io.Writer) error { return Environment(w, reports[0], true, PlanOptions{Width: 80, All: true}) })
	assert.Greater(t, strings.Count(all, "\n"), 100, all)
	wantFits(t, all, 80, 0)
	reasons := must.Get(e.Explain("environment/"+querytest.Environment, "", false))(t)
	atEverySize(t, "environment-explain", []string{"environment-explain-80x24"}, func(w io.Writer, opts PlanOptions) error {
		return EnvironmentReasons(w, "environment/shop/prod", query.AlikeTasks(reasons, false), opts)
	})
}

func TestALineOfTheLogFitsTheTerminal(t *testing.T) {
	actors := query.NewActors(largeLog())
	for e, err := range largeLog().Read(t.Context(), deploylog.Filter{After: 185_900, Until: 187_000}) {
		require.NoError(t, err)
		by := must.Get(actors.Of(t.Context(), e))(t)
		for _, width := range []int{80, 120, 200, 30} {
			line := LogLine(e, by, true, width)
			wantFits(t, line, width, 0)
			if width > 80 && e.Revision != "" && !strings.Contains(line, "revision "+e.Revision) {
				t.Errorf("the revision is missing: %s", line)
			}
		}
	}
}

// Where there is no room for all rows it is said how many stages are left out, not how many
// rows, and in how many something failed; groups stand below their stage.
func TestWhatIsLeftOutOfAStatusIsCounted(t *testing.T) {
	p := query.PipelineStatus{Name: "p", Rows: []query.TargetRow{{Place: pipeline.Place{Target: "pipeline/p"}}}}
	for i := range 14 {
		stage := fmt.Sprintf("stage%02d", i)
		p.Rows = append(p.Rows, query.TargetRow{Place: pipeline.Place{Stage: stage}, LatestRevisions: query.LatestRevisions{Deployed: stage}})
		for _, group := range []string{"eu", "us", "asia"} {
			row := query.TargetRow{Place: pipeline.Place{Stage: stage, Group: group}, LatestRevisions: query.LatestRevisions{Deployed: group}}
			if group == "eu" {
				row.FailedHosts, row.Hosts = []string{"h"}, 9
			}
			p.Rows = append(p.Rows, row)
		}
	}
	for height, want := range map[int]string{12: "  … 10 stages, 10 failing: --all", 20: "  … 6 stages, 6 failing: --all"} {
		text := written(t, func(w io.Writer) error { return Pipeline(w, p, PlanOptions{Width: 80, Height: height}) })
		assert.True(t, strings.HasSuffix(strings.TrimRight(text, " \n"), "\n"+want), text)
	}
}
