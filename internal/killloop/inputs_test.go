package killloop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/must"
)

// inputs are what a revision is released with, and what becomes of the files.
type inputs struct {
	*world
	versions map[string]int    // of what is right, by file
	broken   map[string]bool   // files that cannot be released as they are
	released map[string]string // what hosts of a revision have, HOST standing for the host
	last     map[string]string // the newest revision of the pipeline and of the environment
}

const linePipeline = `
pipeline: line
stages:
  - name: first
    deploy:
      host_groups: [{name: first, hosts: "attribute:stage == first"}]
      steps: [{event: host-copied, manifest: copy.yaml, retries: 20}, {event: host-deployed, manifest: deploy.yaml, retries: 20}]
  - name: second
    deploy:
      host_groups: [{name: second, hosts: "attribute:stage == second"}]
      steps: [{event: host-deployed, manifest: deploy.yaml, retries: 20}]
batches: [{from: first, to: second}]
`

const agentsEnvironment = `
name: agents
task: {manifest: agent.yaml, vars: {number: %q}}
instance_group: {query: "attribute:stage exists"}
deployment: {method: Replace, min_healthy_percent: 50, min_healthy_time: 0s, progress_deadline: 1h, healthy_deadline: 1h}
`

// manifestOf is a manifest of which a part lies in another file and a part in a variable.
func manifestOf(file, revision string, version int) string {
	return fmt.Sprintf(`# version %d
plugs: {dir: {path: "hosts/{{ host }}"}, all: {path: all}}
resources:
  %s:
    type: journal:1
    config:
      file: %q
      host: "{{ host }}"
      for: %q
      alone: %q
      wait: 150
      value: "%s {{ host }} v%d {%% include 'part.txt' %%} {{ setting }}"
`, version, file, file, revision, map[bool]string{true: "{{ stage }}", false: "{{ host }}"}[file != "agent"], file, version)
}

func (in *inputs) text(name string, version int) string {
	switch name {
	case "part.txt":
		return fmt.Sprintf("part%d", version)
	case "vars.auto.yaml":
		return fmt.Sprintf("setting: setting%d\n", version)
	case "agent.yaml":
		return manifestOf("agent", "agents {{ revision }}", version)
	}
	return manifestOf(strings.TrimSuffix(name, ".yaml"), "line {{ revision }}", version)
}

var inputFiles = []string{"copy.yaml", "deploy.yaml", "agent.yaml", "part.txt", "vars.auto.yaml"}

// edit does to a file what people do: write it, or be in the midst of that, or lose it.
func (in *inputs) edit() {
	in.Helper()
	name := inputFiles[in.IntN(len(inputFiles))]
	in.versions[name]++
	text := in.text(name, in.versions[name])
	in.broken[name] = false
	switch in.IntN(12) {
	case 0: // half of it is saved
		in.broken[name] = true
		if half := text[:len(text)*2/3]; name == "part.txt" {
			if err := os.Remove(in.path(name)); err != nil && !os.IsNotExist(err) { // it can be gone already
				in.Fatal(err)
			}
		} else if name == "vars.auto.yaml" {
			in.write(name, "setting: [half")
		} else {
			in.write(name, half+"\n  : [")
		}
	case 1:
		in.broken[name] = true
		err := os.Remove(in.path(name))
		require.True(in, err == nil || os.IsNotExist(err), "%v", err)
		require.NoError(in, os.Symlink("nowhere", in.path(name)))
	case 2:
		in.moveTag(in.IntN(images))
		fallthrough
	default:
		in.write(name, text)
	}
	in.say("%s is version %d, broken %v, image %d", name, in.versions[name], in.broken[name], in.image)
}

// content is what a file of a host is to hold that is released now.
func (in *inputs) content(file string) string {
	return fmt.Sprintf("%s HOST v%d part%d setting%d image=%d", file, in.versions[file+".yaml"], in.versions["part.txt"], in.versions["vars.auto.yaml"], in.image)
}

// fits reports whether a command did what the files allow.
func (in *inputs) fits(ok bool, files ...string) bool {
	broken := ""
	for _, name := range append(files, "part.txt", "vars.auto.yaml") {
		if in.broken[name] {
			broken = name
		}
	}
	assert.Equal(in, (broken == ""), ok, "released %v, although broken is %q", ok, broken)
	return ok
}

// release makes the next revision of the pipeline.
func (in *inputs) release() bool {
	in.Helper()
	next := fmt.Sprint(len(in.released) + 1)
	_, ok := in.run("pipeline", "release", "line", next, "--allow-logged", "setting")
	if in.fits(ok, "copy.yaml", "deploy.yaml") {
		in.last["line"] = next
		in.released["line "+next] = "released"
		in.released["line "+next+" copy"], in.released["line "+next+" deploy"] = in.content("copy"), in.content("deploy")
	}
	return ok
}

func (in *inputs) update(number int) bool {
	in.Helper()
	in.write("agents.yaml", fmt.Sprintf(agentsEnvironment, fmt.Sprint(number)))
	next := 1
	if last := in.last["agents"]; last == "" {
		_, ok := in.run("env", "create", "-f", "agents.yaml", "--allow-logged", "setting")
		if !in.fits(ok, "agent.yaml") {
			return false
		}
	} else {
		must.Get(fmt.Sscan(last, &next))(in)
		_, ok := in.run("env", "update", "agents", "--base", last, "-f", "agents.yaml", "--allow-logged", "setting")
		if !in.fits(ok, "agent.yaml") {
			return false
		}
		next++
	}
	in.last["agents"] = fmt.Sprint(next)
	in.released[fmt.Sprintf("agents %d", next)] = in.content("agent")
	in.must("env", "deploy", "agents", "--revision", fmt.Sprint(next))
	return true
}

// Files are edited, half saved and lost, and tags moved, while schedulers and controllers
// are killed: every host of a revision gets what that was released with.
func TestInputsAreWhatWasReleased(t *testing.T) {
	rounds(t, 10, func(w *world, kills int) {
		in := &inputs{world: w, versions: map[string]int{}, broken: map[string]bool{}, released: map[string]string{}, last: map[string]string{}}
		in.stages(map[string][]string{"first": {"a", "b"}, "second": {"c", "d"}})
		w.write("line.yaml", linePipeline)
		for _, name := range inputFiles {
			w.write(name, in.text(name, 0))
		}
		w.must("pipeline", "apply", "-f", "line.yaml")
		in.release()
		in.update(0)
		w.work("pipeline", "run")
		w.work("env", "run", "--check-every", "1s")
		for number := 1; w.killed < kills; number++ {
			for range 1 + w.IntN(3) {
				in.edit()
			}
			switch w.IntN(3) {
			case 0:
				in.release()
			case 1:
				in.update(number)
			}
			w.kill(2000 * time.Millisecond)
		}
		for _, name := range inputFiles {
			in.broken[name] = false
			w.write(name, in.text(name, in.versions[name]))
		}
		in.release()
		in.update(-1)
		w.stop()
		w.must("pipeline", "run", "--until-idle")
		w.must("env", "run", "--until-idle", "--check-every", "1s")
		for _, host := range w.hosts {
			for file, of := range map[string]string{"deploy": "line " + in.last["line"] + " deploy", "agent": "agents " + in.last["agents"]} {
				if got, want := w.file(host, file), strings.ReplaceAll(in.released[of], "HOST", host); got != want {
					w.Errorf("%s of %s is %q, want %q", file, host, got, want)
				}
			}
		}
		events := w.events()
		w.checkRuns(events)
		w.checkJournal(in.released)
		w.checkPipeline(events, "line")
		w.checkEnvironment(events, "agents", 50)
	})
}

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
