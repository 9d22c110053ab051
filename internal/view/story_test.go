package view

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/report"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file below testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, []byte(got)) {
		t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
	}
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
