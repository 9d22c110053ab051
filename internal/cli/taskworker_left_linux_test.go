package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
)

// A controller dies after it has begun the run of a task and before that did anything. When
// the task is terminated nothing is there to be removed, and no other run of the task comes:
// the run has an end in the log all the same.
func TestTheRunOfATaskThatWasNeverMadeHasAnEnd(t *testing.T) {
	w := newWorks(t, "hosts: [{name: one, engine: oci}]\n", "oci")
	w.write("things/keep", "")
	task := w.task(1, "one", `{plugs: {root: {path: things}}, resources: {a: {type: deployster/file, config: {path: a, content: b}}}}`, nil)
	w.start(task)
	require.NoError(t, w.worker.Terminate(t.Context(), task))
	var begun deploylog.Event
	for e, err := range w.log.Read(t.Context(), deploylog.Filter{Name: "run-started", Last: 1}) {
		if begun = e; err != nil {
			t.Fatal(err)
		}
	}
	begun.Seq, begun.ID, begun.Deployment = 0, "", "01M80NJD8H7FSBE3JBFXTSXRB4"
	terminated := deploylog.Event{
		Deployment: "Some/Prod:1@1", Target: record.TaskTarget(task.Environment, task.Revision, task.Host),
		Name: record.TaskTerminated, Attempt: 1, Data: json.RawMessage(`{"version":1}`),
	}
	if _, err := w.log.Append(t.Context(), terminated, begun); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, w.worker.Terminate(t.Context(), task))
	open, err := w.log.InProgress(t.Context(), begun.Target)
	if err != nil || len(open) > 0 {
		t.Errorf("without an end are %v, %v", open, err)
	}
}

// A task whose configuration its type does not take can be terminated all the
// same: it has made nothing. What it only found stays.
func TestATaskThatMadeNothingIsTerminatedWithoutBeingAsked(t *testing.T) {
	w := newWorks(t, "hosts: [{name: antworker001, engine: oci}]", "oci")
	w.write("files/found", "here")
	const files = `
plugs: {root: {path: files}}
resources:
  found: {type: deployster/file, config: {path: found, content: here}}
  made: {type: deployster/file, dependencies: {found: found}, config: {path: "{{ path }}", content: new}}
`
	bad := w.task(2, "antworker001", files, map[string]any{"path": "../outside"})
	if _, err := w.worker.Start(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "stay below it") {
		t.Fatalf("it was started: %v", err)
	}
	w.terminate(bad)
	for range 7 {
		if _, err := w.worker.Start(t.Context(), bad); err == nil {
			t.Fatal("it was started")
		}
	}
	if got := w.runs(); got != 5+1 { // and the work directories of the processes that are kept
		t.Errorf("the files of %d runs are kept", got)
	}
	good := w.task(1, "antworker001", files, map[string]any{"path": "made"})
	w.start(good)
	w.terminate(good)
	if kept, err := os.ReadDir(filepath.Join(w.dir, "files")); err != nil || len(kept) != 1 || kept[0].Name() != "found" {
		t.Errorf("there is %v, %v", kept, err)
	}
}
