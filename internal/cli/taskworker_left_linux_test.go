package cli_test

import (
	"encoding/json"
	"testing"

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
	if err := w.worker.Terminate(t.Context(), task); err != nil {
		t.Fatal(err)
	}
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
	if err := w.worker.Terminate(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	open, err := w.log.InProgress(t.Context(), begun.Target)
	if err != nil || len(open) > 0 {
		t.Errorf("without an end are %v, %v", open, err)
	}
}
