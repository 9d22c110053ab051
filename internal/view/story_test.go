package view

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
	"github.com/deployster-go/deployster/internal/terminal/pane"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/effect"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/report"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want := must.Get(os.ReadFile(file))(t)
	assert.Equal(t, string(want), got, file)
}

// written returns what something writes, which must not fail.
func written(t *testing.T, write func(io.Writer) error) string {
	var out strings.Builder
	require.NoError(t, write(&out))
	return out.String()
}

const (
	run      = "01JD3K8Q6RZ5T9V2X4Y7W1ABCD"
	network  = "deployster/network"
	shipped  = "deployster/container"
	hostile  = "\x1b[2J\x1b]0;pwned\a\u202e\u009bevil\x00\tend"
	postgres = "registry.example/postgres:16"
)

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// at is a moment of a story, in seconds from its start.
func at(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }

func span(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func code(n int) *int { return &n }

var headers = []report.ResourceHeader{
	{Name: "front-net", Type: network},
	{Name: "db", Type: shipped},
	{Name: "api", Type: shipped, DependsOn: []string{"db", "front-net"}},
	{Name: "smoke", Type: "deployster/http", DependsOn: []string{"api"}},
}

func started(command string) report.Event {
	return report.Event{Kind: report.RunStarted, Time: at(0), Resources: headers, Data: map[string]string{
		"manifest": "web.yaml", "engine": "docker 20.10.24", "plugs": "1", "run": run, "command": command,
	}}
}

// beginning is the first three seconds of every story.
func beginning() []report.Event {
	create := &protocol.Action{Name: "create", Description: `create container "db"`}
	return []report.Event{
		started("apply"),
		{Kind: report.Working, Time: at(0), Resource: "front-net", Action: "init"},
		{Kind: report.Working, Time: at(0), Resource: "db", Action: "init"},
		{Kind: report.ResourceInitialized, Time: at(.1), Resource: "front-net", Image: network, ImageID: "sha256:aa"},
		{Kind: report.ResourceInitialized, Time: at(.1), Resource: "db", Image: shipped, ImageID: "sha256:bb"},
		{Kind: report.ResourceInitialized, Time: at(.1), Resource: "api", Image: shipped, ImageID: "sha256:bb"},
		{Kind: report.ResourceInitialized, Time: at(.1), Resource: "smoke", Image: "deployster/http", ImageID: "sha256:cc"},
		{Kind: report.Warning, Time: at(.1), Resource: "smoke", Text: "plug \"certs\" is optional and not in the manifest"},
		{Kind: report.ResourceStarted, Time: at(.1), Resource: "front-net"},
		{Kind: report.ResourceStarted, Time: at(.1), Resource: "db"},
		{Kind: report.Working, Time: at(.1), Resource: "front-net", Action: "state"},
		{Kind: report.Working, Time: at(.1), Resource: "db", Action: "state"},
		{Kind: report.ResourceResolved, Time: at(.3), Resource: "front-net", Status: report.Valid},
		{Kind: report.ResourceFinished, Time: at(.3), Resource: "front-net", Status: report.Unchanged, Duration: span(.2)},
		{Kind: report.ResourceResolved, Time: at(.4), Resource: "db", Status: report.Stale, Actions: []string{"create"}},
		{Kind: report.ActionStarted, Time: at(.4), Resource: "db", Action: "create", Attempt: 1, Plan: create},
		{Kind: report.Working, Time: at(.5), Resource: "db", Action: "create"},
		{Kind: report.Pulling, Time: at(1), Resource: "db", Image: postgres, Total: 112_000_000},
		{Kind: report.Pulling, Time: at(3.2), Resource: "db", Image: postgres, Current: 43_000_000, Total: 112_000_000},
	}
}

func success() []report.Event {
	events := append(beginning(),
		report.Event{Kind: report.Line, Time: at(4), Resource: "db", Action: "create", Stream: "stdout", Text: "container " + hostile},
		report.Event{Kind: report.ActionFinished, Time: at(6), Resource: "db", Action: "create", Attempt: 1, Exit: code(0), Duration: span(5.6)},
		report.Event{Kind: report.Working, Time: at(6), Resource: "db", Action: "state"},
		report.Event{Kind: report.ResourceVerified, Time: at(6.1), Resource: "db", Status: report.Valid},
		report.Event{Kind: report.ResourceFinished, Time: at(6.1), Resource: "db", Status: report.Changed, Duration: span(6)},
	)
	for i, name := range []string{"api", "smoke"} {
		begin := 6.1 + 4*float64(i)
		events = append(events,
			report.Event{Kind: report.ResourceStarted, Time: at(begin), Resource: name},
			report.Event{Kind: report.ResourceResolved, Time: at(begin + .2), Resource: name, Status: report.Stale, Actions: []string{"run"}},
			report.Event{Kind: report.ActionStarted, Time: at(begin + .2), Resource: name, Action: "run", Attempt: 1},
			report.Event{Kind: report.ActionFinished, Time: at(begin + 3.8), Resource: name, Action: "run", Attempt: 1, Exit: code(0), Duration: span(3.6)},
			report.Event{Kind: report.ResourceVerified, Time: at(begin + 4), Resource: name, Status: report.Valid},
			report.Event{Kind: report.ResourceFinished, Time: at(begin + 4), Resource: name, Status: report.Changed, Duration: span(4)},
		)
	}
	return append(events, report.Event{
		Kind: report.RunFinished, Time: at(14.2), Duration: span(14.2), Counts: report.Counts{Changed: 3, Unchanged: 1},
	})
}

func failure() []report.Event {
	const why = `action "create" exited with code 125`
	return append(beginning(),
		report.Event{Kind: report.ActionFailed, Time: at(4), Resource: "db", Action: "create", Attempt: 1, Exit: code(125), Duration: span(3.6),
			Error: why, Output: []string{"Error response from daemon:", "port is already allocated " + hostile}},
		report.Event{Kind: report.ResourceFailed, Time: at(4), Resource: "db", Status: report.Failed, Error: why, Duration: span(3.9)},
		report.Event{Kind: report.ResourceSkipped, Time: at(4), Resource: "api", Status: report.Skipped, Error: "db failed"},
		report.Event{Kind: report.ResourceSkipped, Time: at(4), Resource: "smoke", Status: report.Skipped, Error: "api was skipped"},
		report.Event{Kind: report.RunFailed, Time: at(4.1), Duration: span(4.1), Error: "db: " + why,
			Counts: report.Counts{Failed: 1, Skipped: 2, Unchanged: 1}},
	)
}

func interruption() []report.Event {
	return append(beginning(),
		report.Event{Kind: report.Waiting, Time: at(3.5), Text: "for running actions to finish; interrupt again to kill them"},
		report.Event{Kind: report.ActionFinished, Time: at(6), Resource: "db", Action: "create", Attempt: 1, Exit: code(0), Duration: span(5.6)},
		report.Event{Kind: report.ResourceFailed, Time: at(6), Resource: "db", Status: report.Failed, Error: "interrupted before it was verified", Duration: span(5.9)},
		report.Event{Kind: report.RunFailed, Time: at(6), Duration: span(6), Error: "interrupted", Data: map[string]string{"interrupted": "true"},
			Counts: report.Counts{Failed: 1, Skipped: 2, Unchanged: 1}},
	)
}

// planning is what a plan shows: no run, no actions.
func planning() []report.Event {
	return []report.Event{
		{Kind: report.Working, Time: at(0), Resource: "db", Action: "init"},
		{Kind: report.ResourceInitialized, Time: at(.1), Resource: "db"},
		{Kind: report.ResourceStarted, Time: at(.1), Resource: "db"},
		{Kind: report.Working, Time: at(.1), Resource: "db", Action: "state"},
		{Kind: report.ResourceResolved, Time: at(.3), Resource: "db", Status: report.Stale, Actions: []string{"create"}, Duration: span(.2)},
		{Kind: report.ResourceResolved, Time: at(.3), Resource: "api", Status: report.Unknown},
	}
}

var stories = []struct {
	name   string
	events []report.Event
}{{"success", success()}, {"failure", failure()}, {"interruption", interruption()}, {"planning", planning()}}

// terminal is as much of a terminal as Live relies on. Whatever else it is
// sent, it remembers as a breach.
type screen struct {
	width, height int
	lines         []string // all there ever was; the last height of them are the screen
	row, col      int      // row counts from the first line
	nowrap        bool
	hidden        bool // the cursor
	written       int  // bytes
	breaches      []string
}

func newTerminal(width, height int) *screen {
	return &screen{width: width, height: height, lines: []string{""}}
}

func (t *screen) Write(p []byte) (int, error) {
	t.written += len(p)
	state := byte(0)
	rest := string(p)
	for rest != "" {
		seq, cells, n, next := ansi.DecodeSequence(rest, state, nil)
		state, rest = next, rest[n:]
		switch {
		case cells > 0:
			t.put(seq, cells)
		case seq == "\n":
			t.row++
			if t.row == len(t.lines) {
				t.lines = append(t.lines, "")
			}
		case seq == "\r":
			t.col = 0
		default:
			t.control(seq)
		}
	}
	return len(p), nil
}

func (t *screen) put(text string, cells int) {
	if t.col+cells > t.width {
		t.breach("text beyond the last column: %q", text)
		return
	}
	line := t.lines[t.row]
	left := ansi.Truncate(line, t.col, "")
	left += strings.Repeat(" ", t.col-ansi.StringWidth(left))
	t.lines[t.row] = left + text + ansi.TruncateLeft(line, t.col+cells, "")
	t.col += cells
}

func (t *screen) control(seq string) {
	switch {
	case seq == pane.NoWrap:
		t.nowrap = true
	case seq == pane.DoWrap:
		t.nowrap = false
	case seq == ansi.HideCursor:
		t.hidden = true
	case seq == ansi.ShowCursor:
		t.hidden = false
	case seq == pane.EraseRight:
		t.lines[t.row] = ansi.Truncate(t.lines[t.row], t.col, "")
	case seq == pane.EraseBelow:
		t.lines[t.row] = ansi.Truncate(t.lines[t.row], t.col, "")
		for i := t.row + 1; i < len(t.lines); i++ {
			t.lines[i] = ""
		}
	case strings.HasPrefix(seq, "\x1b[") && strings.HasSuffix(seq, "A"):
		n, err := strconv.Atoi(seq[2 : len(seq)-1])
		if err != nil || n < 1 {
			t.breach("%q", seq)
		}
		t.row -= n
		if top := max(0, len(t.lines)-t.height); t.row < top {
			t.breach("the cursor went up %d lines, out of the screen", n)
			t.row = top
		}
	case strings.HasPrefix(seq, "\x1b[") && strings.HasSuffix(seq, "m"): // colours are not shown
	case strings.IndexFunc(seq, unicode.IsControl) < 0: // a mark that takes no cell
	default:
		t.breach("%q", seq)
	}
}

func (t *screen) breach(format string, args ...any) {
	t.breaches = append(t.breaches, fmt.Sprintf(format, args...))
}

// check fails the test if the terminal was sent what it must not get, or is not as it was.
func (t *screen) check(tb interface{ Errorf(string, ...any) }) {
	if t.hidden || t.nowrap || len(t.breaches) > 0 {
		tb.Errorf("the terminal is left without cursor (%t) or wrapping (%t), and was sent %v", t.hidden, t.nowrap, t.breaches)
	}
}

// text is everything, also what has scrolled out.
func (t *screen) text() string {
	lines := make([]string, len(t.lines))
	for i, line := range t.lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}

// TestMain has times shown as those of one zone, wherever the tests run. It is set before any test
// begins: timers read it all the time.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

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
