package killloop

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/must"
)

// told is a pipeline as the log tells it, folded from its events alone.
type told struct {
	order     []string                               // deployments, in the order of their release
	revision  map[string]string                      // by deployment
	status    map[string]string                      // by deployment
	succeeded map[deploylog.Target]map[string]string // revisions, by deployment
	applied   map[deploylog.Target]string            // the revision that was applied there last
}

var ends = map[string]string{
	"pipeline-started": "running", "pipeline-retried": "running", "pipeline-finished-successfully": "finished",
	"pipeline-failed": "failed", "pipeline-cancelled": "cancelled", "pipeline-skipped": "skipped", "pipeline-superseded": "superseded",
}

func (w *world) told(events []deploylog.Event, pipeline string) told {
	t := told{revision: map[string]string{}, status: map[string]string{}, succeeded: map[deploylog.Target]map[string]string{}, applied: map[deploylog.Target]string{}}
	for _, e := range events {
		parts := strings.Split(string(e.Target), "/")
		if len(parts) < 2 || parts[1] != pipeline || parts[0] == "run" {
			continue
		}
		if e.Name == "pipeline-started" {
			t.order = append(t.order, e.Deployment)
			t.revision[e.Deployment] = e.Revision
		}
		if status, ok := ends[e.Name]; ok {
			t.status[e.Deployment] = status
		}
		if e.Name == e.Target.Succeeded() {
			if t.succeeded[e.Target] == nil {
				t.succeeded[e.Target] = map[string]string{}
			}
			t.succeeded[e.Target][e.Deployment] = e.Revision
			if !w.details(e).Nothing {
				t.applied[e.Target] = e.Revision
			}
		}
	}
	return t
}

// latest is the revision that succeeded at a target and was released last; "" is none.
func (t told) latest(target deploylog.Target) string {
	for _, d := range slices.Backward(t.order) {
		if r, ok := t.succeeded[target][d]; ok {
			return r
		}
	}
	return ""
}

// checkPipeline checks that what status, history, list, explain and latest tell of a pipeline
// is what the log tells, and that one revision at a time was in each batch.
func (w *world) checkPipeline(events []deploylog.Event, name string) {
	w.Helper()
	t := w.told(events, name)
	history := answer[struct {
		Revisions []struct{ Revision, Deployment, Status string }
	}](w, "pipeline", "history", name)
	assert.Len(w, history.Revisions, len(t.order), "history tells of")
	var running []string
	for _, r := range history.Revisions {
		if t.status[r.Deployment] != r.Status || t.revision[r.Deployment] != r.Revision {
			w.Errorf("history tells that revision %s is %s, the log that %s is %s", r.Revision, r.Status, t.revision[r.Deployment], t.status[r.Deployment])
		}
		if r.Status == "running" {
			running = append(running, r.Revision)
		}
	}
	list := answer[struct {
		Pipelines []struct {
			Pipeline   string
			InProgress []string `json:"in_progress"`
		}
	}](w, "pipeline", "list")
	for _, p := range list.Pipelines {
		if p.Pipeline == name && !slices.Equal(p.InProgress, running) {
			w.Errorf("list tells that %v are in progress, history %v", p.InProgress, running)
		}
	}
	for target := range t.succeeded {
		latest := answer[struct{ Succeeded *struct{ Revision string } }](w, "log", "latest", string(target))
		if latest.Succeeded == nil || latest.Succeeded.Revision != t.latest(target) {
			w.Errorf("latest tells of %s that %+v succeeded, the log %s", target, latest.Succeeded, t.latest(target))
		}
	}
	w.checkStatus(t, name)
	explained := answer[struct{ Reasons []struct{ Revision string } }](w, "explain", "pipeline/"+name)
	for _, revision := range running {
		if !slices.ContainsFunc(explained.Reasons, func(r struct{ Revision string }) bool { return r.Revision == revision }) {
			w.Errorf("explain does not tell why revision %s is running", revision)
		}
	}
}

// checkStatus checks that status shows of hosts what was applied there last.
func (w *world) checkStatus(t told, name string) {
	w.Helper()
	status := answer[struct {
		Pipelines []struct {
			Targets []struct {
				Target   deploylog.Target
				Host     string
				Deployed string
			}
		}
	}](w, "pipeline", "status", name, "--hosts")
	for _, row := range status.Pipelines[0].Targets {
		if row.Host != "" && row.Deployed != t.applied[row.Target] {
			w.Errorf("status tells that %s has %q, the log %q", row.Target, row.Deployed, t.applied[row.Target])
		}
	}
}

// checkEnvironment checks that an environment is as it should be, and that all commands
// tell so.
func (w *world) checkEnvironment(events []deploylog.Event, name string, percent int) {
	w.Helper()
	status := answer[struct {
		Environments []struct {
			Revisions []struct {
				Revision         int
				Status           string
				Desired, Current int
			}
		}
	}](w, "env", "status", name)
	active := 0
	for _, r := range status.Environments[0].Revisions {
		if r.Status == "Active" {
			active = r.Revision
			assert.Equal(w, r.Current, r.Desired, "env status tells that revision %d has %d healthy tasks of %d", r.Revision, r.Current, r.Desired)
		} else if r.Current != 0 {
			w.Errorf("env status tells that revision %d is %s with %d tasks", r.Revision, r.Status, r.Current)
		}
	}
	assert.True(w, active != 0, "no revision is active: %+v", status)
	explained := answer[struct{ Reasons []struct{ Message string } }](w, "explain", "environment/"+name)
	for _, r := range explained.Reasons {
		w.Errorf("explain tells of an environment that is as it should be: %s", r.Message)
	}
	w.checkTasks(events, name, active, percent)
}

// checkHistory has the rules by which rollouts are simulated look at what environments went through.
func (w *world) checkHistory(events []deploylog.Event) {
	w.Helper()
	file := w.path("history.json")
	var history bytes.Buffer
	for _, e := range events {
		if _, of := record.NameOf(e.Target); !of {
			continue
		}
		encoded := must.Get(json.Marshal(e))(w)
		history.Write(append(encoded, '\n'))
	}
	require.NoError(w, os.WriteFile(file, history.Bytes(), 0o600))
	replay := exec.CommandContext(w.Context(), "go", "test", "-vet=off", "-count=1", "-v", "-run", "^TestHistoriesOfServersAreAsTheRulesSay$", "../../environment", "-args", "-history", file)
	said, err := replay.CombinedOutput()
	if err != nil || !bytes.Contains(said, []byte("--- PASS: TestHistoriesOfServersAreAsTheRulesSay")) {
		w.Errorf("%s: %v\n%s", replay, err, said)
	}
}
