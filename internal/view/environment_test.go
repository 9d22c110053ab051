package view

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/phrase"
)

func shown(t *testing.T, r report.Report, hosts bool) string {
	t.Helper()
	var b strings.Builder
	if err := Environment(&b, r, hosts, PlanOptions{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
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
	if got := shown(t, r, false); got != want {
		t.Errorf("shown is\n%s, want\n%s", got, want)
	}
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
	if got := shown(t, r, false); !strings.Contains(got, want) || !strings.Contains(got, "  … and 2 more hosts cordoned: --hosts shows all") {
		t.Errorf("shown is\n%s\nwithout\n%s", got, want)
	}
	if got := shown(t, r, true); !strings.Contains(got, "Cordoned h11") {
		t.Errorf("shown is\n%s", got)
	}
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
	if got := shown(t, inTrouble(), false); got != want {
		t.Errorf("shown is\n%s, want\n%s", got, want)
	}
}

func TestAllHostsAreShownWhenAskedFor(t *testing.T) {
	got := shown(t, inTrouble(), true)
	for _, want := range []string{
		"1 host healthy, minimum 2:\n", "  ○ three  has no task yet\n", "  ✔ two  revision 1 healthy since 2017-09-06 11:47:23, event 12\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

func TestOfManyTroublesTheFirstAreShown(t *testing.T) {
	r := report.Report{Environment: "shop"}
	for i := range 50 {
		r.Hosts = append(r.Hosts, report.HostRow{Host: fmt.Sprintf("host-%02d", i), Failed: true})
	}
	got := shown(t, r, false)
	if !strings.Contains(got, "host-19") || strings.Contains(got, "host-20") || !strings.Contains(got, "… and 30 more hosts in trouble") {
		t.Errorf("shown is\n%s", got)
	}
	if got := shown(t, r, true); !strings.Contains(got, "host-49") {
		t.Errorf("--hosts leaves out host-49:\n%s", got)
	}
}

func TestOfALongCauseTheBeginningAndTheEndAreShown(t *testing.T) {
	var cause strings.Builder
	for i := range 40 {
		fmt.Fprintf(&cause, "line %d\n", i)
	}
	r := inTrouble()
	r.Hosts[1].Tasks[0].Cause = cause.String()
	got := shown(t, r, false)
	if !strings.Contains(got, "      line 0\n      … 28 lines\n      line 29\n") || !strings.Contains(got, "line 39\n") {
		t.Errorf("shown is\n%s", got)
	}
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
		t.Run(tc.name, func(t *testing.T) {
			var b strings.Builder
			if err := EnvironmentEvent(&b, tc.e, PlanOptions{}); err != nil || b.String() != tc.want {
				t.Errorf("written is %q, %v; want %q", b.String(), err, tc.want)
			}
		})
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
		if strings.Count(text, want) != 1 {
			t.Errorf("%q is there %d times in\n%s", want, strings.Count(text, want), text)
		}
	}
	if term.hidden || term.nowrap || len(term.breaches) > 0 {
		t.Errorf("the terminal is left without cursor (%t) or wrapping (%t), and was sent %v", term.hidden, term.nowrap, term.breaches)
	}
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
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if text := term.text(); !strings.Contains(text, "shop:52     Deploying") {
		t.Errorf("in the end there is\n%s", text)
	}
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
		if term.hidden || term.nowrap || len(term.breaches) > 0 {
			t.Fatalf("the terminal is left without cursor (%t) or wrapping (%t), and was sent %v", term.hidden, term.nowrap, term.breaches)
		}
	})
}

// Of hundreds of revisions that are over, people want to see the last.
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
		if got := shown(t, r, false); !strings.Contains(got, "Step 1 of 2: 1 of 1 host begun, event 7: "+tc.want) {
			t.Errorf("%s: shown is\n%s", name, got)
		}
	}
}
