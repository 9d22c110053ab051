package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/view/excerpt"
	"github.com/deployster-go/deployster/runner/report"
)

// plainly shows events as lines.
func plainly(t *testing.T, verbose bool, events ...report.Event) string {
	t.Helper()
	var out bytes.Buffer
	p := NewPlain(&out, PlainOptions{Verbose: verbose})
	for _, e := range events {
		p.Observe(e)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestWhatOneActionPrintsIsBounded(t *testing.T) {
	events := []report.Event{started("apply")}
	for i := range 5_000 {
		events = append(events, report.Event{
			Kind: report.Line, Resource: "db", Action: "create", Attempt: 1, Stream: "stderr",
			Text: fmt.Sprintf("line %d of many", i), File: ".deployster/work/RUN/db/03-create.stderr",
		})
	}
	events = append(events, report.Event{Kind: report.ActionFinished, Resource: "db", Action: "create", Attempt: 1})
	got := plainly(t, false, events...)
	if n := strings.Count(got, "\n"); n > excerpt.HeadLines+excerpt.LastLines+5 {
		t.Errorf("%d lines were shown", n)
	}
	for _, want := range []string{
		"line 0 of many\n", "line 199 of many\n", "… 4780 lines (83.2 KiB) left out; all of it: .deployster/work/RUN/db/03-create.stderr\n",
		"line 4980 of many\n", "line 4999 of many\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q was not shown", want)
		}
	}
	if strings.Index(got, "line 4999") > strings.Index(got, "done: create") {
		t.Error("the end was shown after what followed")
	}
	if n := strings.Count(plainly(t, true, events...), "of many\n"); n != 5_000 {
		t.Errorf("-v shows %d lines", n)
	}

	long := report.Event{Kind: report.Line, Resource: "db", Action: "create", Attempt: 1, Text: strings.Repeat("y", 60<<10)}
	flood := []report.Event{started("apply")}
	for range 300 {
		flood = append(flood, long)
	}
	flood = append(flood, report.Event{Kind: report.ActionFinished, Resource: "db", Action: "create", Attempt: 1})
	if n := len(plainly(t, false, flood...)); n > 512<<10 {
		t.Errorf("%d bytes were shown of long lines", n)
	}
}

// The reason of a failure stands in one place, besides the output that it is of.
func TestAFailureIsToldOnce(t *testing.T) {
	const last = "error: no such host"
	line := func(resource, text string) report.Event {
		return report.Event{Kind: report.Line, Resource: resource, Action: "create", Attempt: 1, Text: text}
	}
	const why = `action "create" exited with 1: ` + last
	end := []report.Event{
		{Kind: report.ActionFailed, Resource: "db", Action: "create", Attempt: 1, Exit: code(1), Error: why, Output: []string{"pulling", last}},
		{Kind: report.ResourceFailed, Resource: "db", Status: report.Failed, Error: why},
		{Kind: report.RunFailed, Error: "db: " + why, Counts: report.Counts{Failed: 1}},
	}
	alone := append([]report.Event{started("apply"), line("db", "pulling"), line("db", last)}, end...)
	if got := plainly(t, false, alone...); strings.Count(got, last) != 2 || strings.Count(got, "pulling") != 1 {
		t.Errorf("shown was\n%s", got)
	}
	// Between the lines of others, what it said last is shown again.
	amid := append([]report.Event{started("apply"), line("db", "pulling"), line("api", "else"), line("db", last)}, end...)
	if got := plainly(t, false, amid...); strings.Count(got, last) != 2 || strings.Count(got, "│ pulling") != 1 || strings.Count(got, "pulling") != 2 {
		t.Errorf("shown was\n%s", got)
	}
	b := newBoard()
	for _, e := range alone {
		b.fold(e)
	}
	if r := b.row("db"); len(r.errors) != 1 || len(r.output) != 1 || r.output[0] != "pulling" {
		t.Errorf("the tree has %q and %q", r.errors, r.output)
	}
}

// What failed again for the same reason, or made something else fail, refers to it.
func TestAReasonOfEventsIsToldOnce(t *testing.T) {
	const why = `app: action "create" exited with 1: error: no such host`
	event := func(seq int64, name, target, text string) deploylog.Event {
		data, err := json.Marshal(map[string]string{"error": text})
		if err != nil {
			t.Fatal(err)
		}
		return deploylog.Event{Seq: seq, Name: name, Target: deploylog.Target(target), Attempt: 1, Data: data}
	}
	var out bytes.Buffer
	opts := PlanOptions{Seen: &SeenReasons{}}
	for _, e := range []deploylog.Event{
		event(3, record.TaskFailed, "task/shop/2/a", why),
		event(4, record.TaskFailed, "task/shop/2/a", why),
		event(5, record.TaskFailed, "task/shop/2/b", "another"),
		event(6, record.EnvironmentStuck, "environment/shop", "no progress for 10s: a: "+why),
	} {
		if err := EnvironmentEvent(&out, e, opts); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range []deploylog.Event{
		event(7, "host-failed", "host/p/g/a", "deploy: "+why), event(8, "stage-failed", "stage/p/g", "deploy: "+why),
	} {
		if err := PipelineEvent(&out, e, opts); err != nil {
			t.Fatal(err)
		}
	}
	if got := out.String(); strings.Count(got, "no such host") != 1 || strings.Count(got, "as event 3 says") < 3 ||
		!strings.Contains(got, "no progress for 10s: a: as event 3 says\n") || !strings.Contains(got, "another") {
		t.Errorf("shown was\n%s", got)
	}
}
