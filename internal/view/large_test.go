package view

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
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

// largePipelines are the pipelines of that log.
func largePipelines(t *testing.T) *query.Pipelines {
	t.Helper()
	p := query.NewPipelines(largeLog(), func() time.Time { return querytest.Noon.Add(12 * time.Hour) })
	if err := p.Follow(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	return p
}

// wantFits demands that no line is wider than the terminal, and that nothing drives it.
func wantFits(t *testing.T, text string, width, height int) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if height > 0 && len(lines) >= height {
		t.Errorf("%d lines leave no room for the prompt on a screen of %d", len(lines), height)
	}
	for _, line := range lines {
		if w := ansi.StringWidth(line); width > 0 && w > width {
			t.Errorf("%d cells are more than %d: %s", w, width, line)
		}
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
			var out strings.Builder
			if err := show(&out, PlanOptions{Width: size[0], Height: size[1]}); err != nil {
				t.Fatal(err)
			}
			height := size[1]
			if height < 24 {
				height = 0 // there is no room for what matters
			}
			wantFits(t, out.String(), size[0], height)
			for _, g := range compared {
				if g == at {
					golden(t, "large-"+at+".txt", out.String())
				}
			}
		})
	}
}

func TestALargePipelineFitsTheScreen(t *testing.T) {
	p := largePipelines(t)
	status, err := p.Status(false, false)
	if err != nil {
		t.Fatal(err)
	}
	atEverySize(t, "status", []string{"status-80x24", "status-80x40", "status-0x0"}, func(w io.Writer, opts PlanOptions) error { return Pipeline(w, status[0], opts) })
}

func TestHostsThatAreAlikeShareARow(t *testing.T) {
	p := largePipelines(t)
	for _, all := range []bool{false, true} {
		status, err := p.Status(true, all)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := Pipeline(&out, status[0], PlanOptions{Width: 80, Height: 24, All: all}); err != nil {
			t.Fatal(err)
		}
		wantFits(t, out.String(), 80, 0)
		if lines := strings.Count(out.String(), "\n"); lines > 1700 != all {
			t.Errorf("with all hosts %v it is %d lines", all, lines)
		}
		if !all {
			golden(t, "large-status-hosts-80.txt", out.String())
		}
	}
}

func TestTheExplanationOfALargePipelineFitsTheScreen(t *testing.T) {
	p := largePipelines(t)
	reasons, err := p.Explain("pipeline/"+querytest.Pipeline, work.NewHosts("none.yaml"), false)
	if err != nil {
		t.Fatal(err)
	}
	atEverySize(t, "explain", []string{"explain-80x24", "explain-80x40"}, func(w io.Writer, opts PlanOptions) error {
		return PipelineReasons(w, "pipeline/gateway", query.AlikeReasons(reasons, false), opts)
	})
}

// A change that concerns every host of every revision under way is shown on a screen, before
// the question.
func TestThePreviewOfALargePipelineFitsTheScreen(t *testing.T) {
	p := largePipelines(t)
	d := querytest.Definition()
	for i, s := range d.Stages {
		if s.Deploy != nil {
			d.Stages[i].Deploy.Steps = append(s.Deploy.Steps, definition.HostStep{Event: "host-restarted", Manifest: "restart.yaml"})
		}
	}
	var changes []effect.Change
	err := p.Ask(querytest.Pipeline, func(s *pipeline.State) (err error) {
		changes, err = s.Preview(&pipeline.Define{Definition: d}, nil)
		return err
	})
	if err != nil || len(changes) < 1000 {
		t.Fatalf("%d changes, %v", len(changes), err)
	}
	atEverySize(t, "preview", []string{"preview-80x24", "preview-0x0"}, func(w io.Writer, opts PlanOptions) error {
		return PipelineChanges(w, query.AlikeChanges(changes, false), true, opts)
	})
	if text, err := json.Marshal(query.AlikeChanges(changes, false)); err != nil || len(text) > 500_000 {
		t.Errorf("as JSON it is %d bytes, %v", len(text), err)
	}
}

func TestALargeEnvironmentFitsTheScreen(t *testing.T) {
	e := query.NewEnvironments(largeLog(), func() time.Time { return querytest.Noon.Add(12 * time.Hour) })
	if err := e.Follow(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	reports, err := e.Status()
	if err != nil {
		t.Fatal(err)
	}
	atEverySize(t, "environment", []string{"environment-80x24", "environment-80x40"}, func(w io.Writer, opts PlanOptions) error {
		return Environment(w, reports[0], false, opts)
	})
	var all strings.Builder
	if err := Environment(&all, reports[0], true, PlanOptions{Width: 80, All: true}); err != nil || strings.Count(all.String(), "\n") < 100 {
		t.Errorf("%v, all of it is\n%s", err, all.String())
	}
	wantFits(t, all.String(), 80, 0)
	reasons, err := e.Explain("environment/"+querytest.Environment, "", false)
	if err != nil {
		t.Fatal(err)
	}
	atEverySize(t, "environment-explain", []string{"environment-explain-80x24"}, func(w io.Writer, opts PlanOptions) error {
		return EnvironmentReasons(w, "environment/shop/prod", query.AlikeTasks(reasons, false), opts)
	})
}

func TestALineOfTheLogFitsTheTerminal(t *testing.T) {
	actors := query.NewActors(largeLog())
	for e, err := range largeLog().Read(t.Context(), deploylog.Filter{After: 185_900, Until: 187_000}) {
		if err != nil {
			t.Fatal(err)
		}
		by, err := actors.Of(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
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
		var out strings.Builder
		if err := Pipeline(&out, p, PlanOptions{Width: 80, Height: height}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
		if got := strings.TrimRight(lines[len(lines)-1], " "); got != want {
			t.Errorf("it ends with %q, want %q:\n%s", got, want, out.String())
		}
	}
}
