package view

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/phrase"
)

func shown(t *testing.T, r report.Report, hosts bool) string {
	return written(t, func(w io.Writer) error { return Environment(w, r, hosts, PlanOptions{}) })
}

func TestTheTableIsThatOfTheSeed(t *testing.T) {
	r := report.Report{Environment: "SomeEnvironment/Prod", Rows: []report.Row{
		{Revision: 1, Status: report.Undeploying, Desired: 0, Current: 4},
		{Revision: 2, Status: report.Deploying, Desired: 5, Current: 1},
	}}
	want := `REVISION                  STATUS       DESIRED   CURRENT
SomeEnvironment/Prod:1    Undeploying  0         4
SomeEnvironment/Prod:2    Deploying    5         1
`
	assert.Equal(t, want, shown(t, r, false), "shown")
}

// inTrouble is an environment with much to report.
func inTrouble() report.Report {
	since := time.Date(2017, 9, 6, 11, 47, 23, 0, time.Local)
	return report.Report{
		Environment: "shop", Rows: []report.Row{{Revision: 1, Status: report.Undeploying, Current: 2}, {Revision: 2, Status: report.Stuck, Desired: 3}},
		Pause:      &report.PauseInfo{By: "ada", Reason: "too loud", Seq: 70, Since: since},
		Deployment: &report.Deployment{ID: "shop:2@1", Status: report.DeploymentStuck, Since: 64, Cause: "no progress for 10m: one: port is taken"},
		Healthy:    1, Minimum: 2,
		Hosts: []report.HostRow{
			{Host: "four", Lost: true, Tasks: []report.TaskRow{{Revision: 1, Status: report.TaskDied, Since: since, Seq: 50, Cause: "its host is gone"}}},
			{Host: "one", Desired: true, Failed: true, Tasks: []report.TaskRow{
				{Revision: 2, Status: report.TaskFailed, Since: since, Seq: 63, Failures: 3, Cause: "port is taken", Next: since.Add(time.Minute)},
			}},
			{Host: "three", Desired: true, Tasks: []report.TaskRow{}},
			{Host: "two", Desired: true, Tasks: []report.TaskRow{{Revision: 1, Status: report.TaskHealthy, Since: since, Seq: 12}}},
		},
	}
}

func TestCordonedHostsAreShownWithWhoDidThat(t *testing.T) {
	r := report.Report{Environment: "shop", Rows: []report.Row{{Revision: 1, Status: report.Active, Desired: 12, Current: 1}}}
	since := time.Date(2017, 9, 6, 11, 47, 23, 0, time.Local)
	for i := range 12 {
		r.Cordoned = append(r.Cordoned, report.Cordon{Host: fmt.Sprintf("h%02d", i), By: "ada", Reason: "a new disk", Seq: 7, Since: since, Drain: i < 2})
	}
	r.Hosts = []report.HostRow{{Host: "h00", Desired: true}, {Host: "h01", Desired: true, Tasks: []report.TaskRow{{Revision: 1, Status: report.TaskHealthy}}}}
	want := "Cordoned h00 since 2017-09-06 11:47:23 by ada (a new disk), event 7: it is drained.\n" +
		"Cordoned h01 since 2017-09-06 11:47:23 by ada (a new disk), event 7: it is being drained.\n" +
		"Cordoned h02 since 2017-09-06 11:47:23 by ada (a new disk), event 7.\n"
	got := shown(t, r, false)
	assert.Contains(t, got, want)
	assert.Contains(t, got, "  … and 2 more hosts cordoned: --hosts shows all")
	assert.Contains(t, shown(t, r, true), "Cordoned h11", "shown")
}

func TestBelowTheTableIsWhatIsNotAsItIsToBe(t *testing.T) {
	want := `REVISION    STATUS       DESIRED   CURRENT
shop:1      Undeploying  0         2
shop:2      Stuck        3         0

Paused since 2017-09-06 11:47:23 by ada (too loud), event 70: nothing new begins until it is resumed, or something is deployed.
Stuck: shop:2@1, event 64
  no progress for 10m
  ! four  is no longer in the inventory: its tasks cannot be cleaned up
  ✘       revision 1 died since 2017-09-06 11:47:23, event 50
      its host is gone
  ✘ one  revision 2 failed since 2017-09-06 11:47:23, event 63, 3 failures in a row, again at 11:48:23
      port is taken
`
	assert.Equal(t, want, shown(t, inTrouble(), false), "shown")
}

func TestAllHostsAreShownWhenAskedFor(t *testing.T) {
	got := shown(t, inTrouble(), true)
	assert.Contains(t, got, "1 host healthy, minimum 2:\n")
	assert.Contains(t, got, "  ○ three  has no task yet\n")
	assert.Contains(t, got, "  ✔ two  revision 1 healthy since 2017-09-06 11:47:23, event 12\n")
}

func TestOfManyTroublesTheFirstAreShown(t *testing.T) {
	r := report.Report{Environment: "shop"}
	for i := range 50 {
		r.Hosts = append(r.Hosts, report.HostRow{Host: fmt.Sprintf("host-%02d", i), Failed: true})
	}
	got := shown(t, r, false)
	assert.Contains(t, got, "host-19")
	assert.NotContains(t, got, "host-20")
	assert.Contains(t, got, "… and 30 more hosts in trouble")
	assert.Contains(t, shown(t, r, true), "host-49", "--hosts leaves out host-49")
}

func TestOfALongCauseTheBeginningAndTheEndAreShown(t *testing.T) {
	var cause strings.Builder
	for i := range 40 {
		fmt.Fprintf(&cause, "line %d\n", i)
	}
	r := inTrouble()
	r.Hosts[1].Tasks[0].Cause = cause.String()
	got := shown(t, r, false)
	assert.Contains(t, got, "      line 0\n      … 28 lines\n      line 29\n")
	assert.Contains(t, got, "line 39\n")
}

func TestAnEventOfAnEnvironmentIsALine(t *testing.T) {
	for _, tc := range []struct {
		name string
		e    deploylog.Event
		want string
	}{
		{
			"a deployment, with who wants it and why",
			deploylog.Event{Seq: 7, Name: record.EnvironmentStarted, Target: "environment/shop", Deployment: "shop:2@1", Attempt: 1, Data: json.RawMessage(`{"kind":"rollback","by":"ada","reason":"slow"}`)},
			"     7  · environment-started  environment/shop  rollback shop:2@1 by ada (slow)\n",
		},
		{
			"hosts that came and went",
			deploylog.Event{Seq: 8, Name: record.HostsChanged, Target: "environment/shop", Attempt: 3, Data: json.RawMessage(`{"joined":["a","b","c","d","e","f"],"left":["g"]}`)},
			"     8  · environment-hosts-changed  environment/shop  joined: a, b, c, d, e and 1 more  left: g\n",
		},
		{
			"a failure, with its cause",
			deploylog.Event{Seq: 9, Name: record.TaskFailed, Target: "task/shop/2/a", Attempt: 2, Data: json.RawMessage(`{"error":"port is taken\nby nginx"}`)},
			"     9  ✘ task-failed  task/shop/2/a  attempt 2\n          port is taken\n          by nginx\n",
		},
		{
			"data that cannot be read is left out",
			deploylog.Event{Seq: 10, Name: record.TaskFinished, Target: "task/shop/2/a", Attempt: 1, Data: json.RawMessage(`{"error":3}`)},
			"    10  ✔ task-finished-successfully  task/shop/2/a\n",
		},
	} {
		assert.Equal(t, tc.want, written(t, func(w io.Writer) error { return EnvironmentEvent(w, tc.e, PlanOptions{}) }), tc.name)
	}
}

// follow shows a report on a terminal and closes it.
func follow(term *screen, r report.Report, d report.Deployment, notes ...string) {
	now := time.Date(2017, 9, 6, 11, 48, 0, 0, time.Local)
	l := NewEnvironmentLive(term, LiveOptions{
		Width: func() int { return term.width }, Height: func() int { return term.height }, Color: true, Now: func() time.Time { return now },
	})
	l.redraw() // before anything is known
	l.Show(r, d)
	l.redraw()
	for _, note := range notes {
		l.Note(note)
		l.redraw()
	}
	d.Status = report.DeploymentFinished
	l.Show(r, d)
	_ = l.Close()
}

func TestAFollowedDeploymentStaysOnTheTerminal(t *testing.T) {
	term := newTerminal(100, 10)
	started := time.Date(2017, 9, 6, 11, 47, 23, 0, time.Local)
	follow(term, inTrouble(), report.Deployment{ID: "shop:2@1", Status: report.DeploymentRunning, Started: started}, "standing by")
	text := term.text()
	for _, want := range []string{"! standing by", "shop:2@1  finished  37.0s", "shop:2      Stuck", "port is taken"} {
		assert.Equal(t, 1, strings.Count(text, want), "%q in\n%s", want, text)
	}
	term.check(t)
}

// After many revisions a low terminal still shows those that matter.
func TestWhatIsBeingDeployedIsNotHiddenByOldRevisions(t *testing.T) {
	r := report.Report{Environment: "shop", Hosts: []report.HostRow{}}
	for n := range 50 {
		r.Rows = append(r.Rows, report.Row{Revision: n + 1, Status: report.Inactive})
	}
	r.Rows = append(r.Rows, report.Row{Revision: 51, Status: report.Undeploying, Current: 1}, report.Row{Revision: 52, Status: report.Deploying, Desired: 2, Current: 1})
	term := newTerminal(60, 8)
	l := NewEnvironmentLive(term, LiveOptions{
		Width: func() int { return term.width }, Height: func() int { return term.height }, Now: time.Now,
	})
	l.Show(r, report.Deployment{ID: "shop:52@1", Status: report.DeploymentRunning})
	l.redraw()
	text := term.text()
	for _, want := range []string{"shop:52@1  running", "shop:51     Undeploying", "shop:52     Deploying"} {
		assert.Contains(t, text, want, "is")
	}
	assert.NoError(t, l.Close())
	assert.Contains(t, term.text(), "shop:52     Deploying", "in the end there")
}

func TestNothingOfAnEnvironmentDrivesTheTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"\x1b[2J", "a\rb", "\u202eright", "\x9b31m", "日本語\n\x07"}))
		r := report.Report{Environment: text.Draw(t, "name"), Rows: []report.Row{{Revision: 1, Status: report.Stuck}}}
		r.Pause = &report.PauseInfo{By: text.Draw(t, "by"), Reason: text.Draw(t, "reason")}
		for range rapid.IntRange(0, 30).Draw(t, "hosts") {
			r.Hosts = append(r.Hosts, report.HostRow{Host: text.Draw(t, "host"), Tasks: []report.TaskRow{
				{Revision: 1, Status: report.TaskFailed, Failures: 2, Cause: text.Draw(t, "cause")},
			}})
		}
		term := newTerminal(rapid.IntRange(1, 120).Draw(t, "width"), rapid.IntRange(2, 30).Draw(t, "height"))
		follow(term, r, report.Deployment{ID: text.Draw(t, "id"), Status: report.DeploymentRunning}, text.Draw(t, "note"))
		term.check(t)
	})
}

func TestOldRevisionsAreLeftOutOfTheTable(t *testing.T) {
	r := report.Report{Environment: "shop"}
	for i := range 30 {
		r.Rows = append(r.Rows, report.Row{Revision: i + 1, Status: report.Inactive})
	}
	r.Rows[2].Status, r.Rows[2].Current = report.Undeploying, 1
	r.Rows = append(r.Rows, report.Row{Revision: 31, Status: report.Active, Desired: 3, Current: 3})
	got := shown(t, r, false)
	if lines := strings.Count(got, "\n"); lines != 14 || !strings.Contains(got, "… 19 earlier revisions: deployster env revisions shop") || !strings.Contains(got, "shop:3 ") || strings.Contains(got, "shop:20 ") {
		t.Errorf("shown are %d lines\n%s", lines, got)
	}
}

func TestTheStatusSaysWhatAVerificationWaitsFor(t *testing.T) {
	begun := time.Date(2017, 9, 6, 11, 48, 0, 0, time.Local)
	step := reason.StepInfo{Number: 1, Of: 2, Begun: 1, Hosts: 1, Seq: 7, Verify: "smoke.yaml"}
	verifying, tried, failed := step, step, step
	verifying.Verifying = 8
	tried.Next, tried.Failures, tried.Attempt = begun, 1, 1
	failed.Failures = 3
	for name, tc := range map[string]struct {
		step   reason.StepInfo
		paused bool
		want   string
	}{
		"its turn":           {step: step, want: "it is to be verified by smoke.yaml, and waits for its turn: no more are verified at once than the controller's --parallelism says.\n"},
		"a person":           {step: step, paused: true, want: "it is to be verified by smoke.yaml once the environment is resumed.\n"},
		"its result":         {step: verifying, want: "it is being verified by smoke.yaml, event 8.\n"},
		"its next try":       {step: tried, want: "verifying it by smoke.yaml failed (attempt 1), next try at " + phrase.Moment(begun) + ".\n"},
		"somebody who helps": {step: failed, want: "it could not be verified by smoke.yaml; deployster env promote shop goes on all the same.\n"},
	} {
		r := report.Report{Environment: "shop", Step: &tc.step}
		if tc.paused {
			r.Pause = &report.PauseInfo{}
		}
		assert.Contains(t, shown(t, r, false), "Step 1 of 2: 1 of 1 host begun, event 7: "+tc.want, name)
	}
}

// texts is a unified diff of so many texts, in each of which so many lines are others.
func texts(count, lines int) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, "--- m%d.yaml (gateway 1)\n+++ m%d.yaml (gateway 2)\n@@ -1,%d +1,%d @@\n", i, i, lines, lines)
		for j := range lines {
			fmt.Fprintf(&b, "-was %d\n+++ is %d\n", j, j)
		}
	}
	return b.String()
}

func TestDifferencesFitTheScreen(t *testing.T) {
	same := &definition.Definition{Name: "web"}
	for _, tc := range []struct {
		name          string
		changed       string
		width, height int
		last          string // line
		lines         int
	}{
		{"it has room to the last line", texts(1, 10), 80, 24, "    +++ is 9", 23},
		{"one text is too long", texts(1, 11), 80, 24, "… and 3 more lines: --all shows everything", 23},
		{"there are too many", texts(20, 100), 80, 24, "… and 4038 more lines, also of 19 more texts: --all shows everything", 23},
		{"some lines take several rows", strings.Repeat("+"+strings.Repeat("x", 100)+"\n", 12), 80, 24, "… and 1 more line: --all shows everything", 12},
		{"it is very small", texts(20, 100), 20, 3, "… and 4058 more lin…", 3},
		{"it is no terminal", texts(20, 100), 0, 0, "    +++ is 99", 4060},
		{"all is asked for", texts(20, 100), 80, 0, "    +++ is 99", 4060},
	} {
		for as, show := range map[string]func(io.Writer, PlanOptions) error{
			"of a pipeline":     func(w io.Writer, o PlanOptions) error { return TextDifferences(w, tc.changed, o) },
			"of an environment": func(w io.Writer, o PlanOptions) error { return RevisionDifferences(w, same, same, tc.changed, o) },
			"in colour": func(w io.Writer, o PlanOptions) error {
				o.Color = true
				return TextDifferences(w, tc.changed, o)
			},
		} {
			t.Run(tc.name+"/"+as, func(t *testing.T) {
				text := written(t, func(w io.Writer) error {
					return show(w, PlanOptions{Width: tc.width, Height: tc.height, All: tc.height == 0})
				})
				lines := strings.Split(strings.TrimSuffix(ansi.Strip(text), "\n"), "\n")
				assert.Len(t, lines, tc.lines)
				assert.Equal(t, tc.last, lines[len(lines)-1])
			})
		}
	}
}
