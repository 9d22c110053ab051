package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/engine/enginetest/dockerdtest"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/cli"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/waittest"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/vars"
	"github.com/deployster-go/deployster/runner"
)

// works is a workspace in which tasks are worked on by this process.
type works struct {
	*testing.T
	dir    string
	log    *sqlite.Log
	worker cli.TaskWorker
}

var _ environments.Tasks = cli.TaskWorker{}

func newWorks(t *testing.T, inventory, engine string, variables ...vars.Flag) *works {
	t.Helper()
	w := &works{T: t, dir: t.TempDir()}
	t.Chdir(w.dir)
	withBinary(t)
	w.write("inventory.yaml", inventory)
	var err error
	if w.log, err = sqlite.Open(t.Context(), filepath.Join(w.dir, ".deployster", "deployments.db"), sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.log.Close() })
	if w.worker, err = cli.NewTaskWorker(w.log, engine, variables...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { assert.NoError(t, w.worker.Close()) })
	return w
}

// withBinary puts the program under test where this process looks for the types
// that ship: a test cannot be in their images.
func withBinary(t *testing.T) {
	self := must.Get(os.Executable())(t)
	beside := filepath.Join(filepath.Dir(self), "deployster-linux-"+runtime.GOARCH)
	program, err := os.ReadFile(binary)
	if err == nil {
		err = os.WriteFile(beside, program, 0o700)
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.Remove(beside) })
}

func (w *works) write(name, text string) { writeFiles(w, w.dir, map[string]string{name: text}) }

// task is the task of a revision, the manifest of which is kept.
func (w *works) task(revision int, host, text string, vars map[string]any) tasks.Task {
	digest := must.Get(objects.In(filepath.Join(w.dir, ".deployster", "objects"), nil).Keep([]byte(text)))(w)
	// As it comes from the log.
	var spec definition.TaskSpec
	stored, err := json.Marshal(definition.TaskSpec{Manifest: "m.yaml", Digest: digest, Vars: vars})
	if err == nil {
		err = json.Unmarshal(stored, &spec)
	}
	require.NoError(w, err)
	return tasks.Task{Environment: "Some/Prod", Host: host, Revision: revision, Spec: spec}
}

func (w *works) start(t tasks.Task) {
	o, err := w.worker.Start(w.Context(), t)
	require.True(w, err == nil && o.Health == tasks.Healthy && o.Detail == "", "revision %d was started and is %+v, %v", t.Revision, o, err)
}

func (w *works) terminate(t tasks.Task) {
	require.NoError(w, w.worker.Terminate(w.Context(), t), "terminating revision %d", t.Revision)
}

// placeOf is where the resources of a task are, by the log.
func placeOf(t tasks.Task) string { return t.Host + ":" + t.Name() }

func (w *works) wantSeen(t tasks.Task, health tasks.Health, says ...string) {
	o, confirmed := w.worker.Confirm(w.Context(), t.Host, []tasks.Task{t})[0] // as a controller does
	if !confirmed {
		o = w.worker.Observe(w.Context(), t)
	}
	assert.True(w, o.Health == health && (len(says) != 0 || o.Detail == ""), "revision %d is %+v, want %s", t.Revision, o, health)
	for _, text := range says {
		assert.Contains(w, o.Detail, text, "of revision %d is told %q, without %q", t.Revision, o.Detail, text)
	}
}

// runs counts what of runs is kept in the workspace.
func (w *works) runs() int {
	kept, err := os.ReadDir(filepath.Join(w.dir, ".deployster", "work"))
	require.True(w, err == nil || errors.Is(err, os.ErrNotExist), "%v", err)
	return len(kept)
}

const web = `
plugs: {docker: {path: "{{ socket }}"}}
resources:
  web:
    type: deployster/container
    config:
      name: "{{ task }}"
      image: "{{ image }}"
      command: [hang]
      env: {REVISION: "r{{ revision }}"}
      networks: [none]
      restart: "no"
      mounts: [{path: "{{ _workspace }}/health/{{ revision }}", target: /health, read_only: true}]
      health: {command: [/probe, read, /health/good], interval: 200ms, timeout: 10m, retries: 2}
`

// webs is a host with an engine of its own, and containers that are healthy as
// long as a file is there.
type webs struct {
	*works
	engine *dockerdtest.Engine
	docker *client.Client
	image  string
}

func newWebs(t *testing.T) *webs {
	t.Helper()
	e := dockerEngines(t, 1)[0]
	w := &webs{engine: e, image: probe}
	loadProbe(t, e.Address())
	w.works = newWorks(t, fmt.Sprintf("hosts: [{name: antworker001, endpoint: %q, attributes: {stack: prod}}]", e.Address()), "docker")
	var err error
	if w.docker, err = client.New(client.WithHost(e.Address())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.docker.Close() })
	return w
}

func (w *webs) revision(n int) tasks.Task {
	w.write(w.health(n), "")
	return w.task(n, "antworker001", web, map[string]any{"image": w.image, "socket": strings.TrimPrefix(w.engine.Address(), "unix://")})
}

func (w *webs) health(revision int) string { return fmt.Sprintf("health/%d/good", revision) }

// by does something to the container of a task by hand.
func (w *webs) by(_ any, err error) { require.NoError(w, err) }

func (w *webs) containers() []string {
	list := must.Get(w.docker.ContainerList(w.Context(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("name", "Some-Prod")}))(w)
	var names []string
	for _, c := range list.Items {
		names = append(names, c.Names...)
	}
	slices.Sort(names)
	return names
}

// hears waits for as many changes as somebody who watches is told of.
func hears(t *testing.T, changes <-chan struct{}, n int, what string) {
	t.Helper()
	for i := range n {
		waittest.Receive(t, changes, fmt.Sprintf("%s: change %d of %d", what, i+1, n))
	}
}

func TestATaskIsWatchedAndSeen(t *testing.T) {
	w := newWebs(t)
	one := w.revision(1)
	w.wantSeen(one, tasks.Unhealthy, "web does not exist")

	changes, ended := make(chan struct{}, 100), make(chan struct{})
	go func() {
		defer close(ended)
		w.worker.Watch(t.Context(), "antworker001", func() { changes <- struct{}{} })
	}()
	w.start(one)
	hears(t, changes, 2, "its start, and that it is healthy")
	w.wantSeen(one, tasks.Healthy)

	require.NoError(t, os.Remove(w.health(1)))
	hears(t, changes, 1, "its health check fails")
	w.wantSeen(one, tasks.Unhealthy, "web is not healthy")
	w.write(w.health(1), "")
	hears(t, changes, 1, "its health check succeeds")
	w.wantSeen(one, tasks.Healthy)

	w.by(w.docker.ContainerKill(t.Context(), one.Name(), client.ContainerKillOptions{Signal: "KILL"}))
	hears(t, changes, 1, "it is killed")
	w.wantSeen(one, tasks.Unhealthy, "web does not run: state asks for", "exited with 137")
	w.start(one)
	hears(t, changes, 2, "its start, and that it is healthy")

	w.by(w.docker.ContainerUpdate(t.Context(), one.Name(), client.ContainerUpdateOptions{RestartPolicy: &container.RestartPolicy{Name: "always"}}))
	w.wantSeen(one, tasks.Drifted, `web ~ restart: "always" → "no"`)
	w.start(one)
	w.wantSeen(one, tasks.Healthy)

	w.terminate(one)
	hears(t, changes, 2, "its end, and that it is gone")
	assert.Empty(t, changes)
	w.wantSeen(one, tasks.Unhealthy, "web does not exist")
	assert.Equal(t, 4, w.runs(), "the files of")

	w.engine.Stop()
	waittest.Receive(t, ended, "nobody watches an engine that has ended")
	w.wantSeen(one, tasks.Unknown, "host antworker001", "Docker at "+w.engine.Address())
	assert.ErrorContains(t, must.Fail(w.worker.Start(t.Context(), one)), "host antworker001", "it was started on an engine that has ended")
	w.worker.Watch(t.Context(), "antworker001", func() { t.Error("a change is told") })
	w.engine.Start()
	ctx, cancel := context.WithCancel(t.Context())
	go w.worker.Watch(ctx, "antworker001", func() { changes <- struct{}{} })
	hears(t, changes, 1, "it is watched again")
	cancel()
	w.wantSeen(one, tasks.Unhealthy, "web does not exist")
}

// Two revisions on one host are two tasks that have nothing in common.
func TestTasksOfTwoRevisionsAreOnAHostAtOnce(t *testing.T) {
	w := newWebs(t)
	one, two := w.revision(1), w.revision(2)
	started := make(chan error, 2)
	for _, task := range []tasks.Task{one, two} {
		go func() {
			o, err := w.worker.Start(t.Context(), task)
			if err == nil && o.Health != tasks.Healthy {
				err = fmt.Errorf("it is %+v", o)
			}
			started <- err
		}()
	}
	require.NoError(t, errors.Join(<-started, <-started))
	if got, want := w.containers(), []string{"/" + one.Name(), "/" + two.Name()}; !slices.Equal(got, want) {
		t.Errorf("containers %v, want %v", got, want)
	}
	require.NoError(t, os.Remove(w.health(1)))
	w.wantSeen(two, tasks.Healthy)

	w.terminate(one)
	w.terminate(one)
	w.terminate(w.revision(3))
	w.wantSeen(two, tasks.Healthy)
	if got, want := w.containers(), []string{"/" + two.Name()}; !slices.Equal(got, want) {
		t.Errorf("containers %v, want %v", got, want)
	}
	w.terminate(two)
	assert.Empty(t, w.containers(), "left behind")

	began := map[deploylog.Target]int{}
	for e, err := range w.log.Read(t.Context(), deploylog.Filter{}) {
		require.NoError(t, err)
		if e.Name == e.Target.Started() {
			began[e.Target]++
		}
		if e.Target.Kind() == "run" && e.Name == e.Target.Started() && !strings.Contains(string(e.Data), `"environment":"Some/Prod"`) {
			t.Errorf("a run does not tell of which environment it is: %s", e.Data)
		}
	}
	for target, n := range map[string]int{
		"run/m.yaml@" + placeOf(one): 3, "resource/web@" + placeOf(one): 3, "run/m.yaml@" + placeOf(two): 2, "resource/web@" + placeOf(two): 2,
	} {
		if began[deploylog.Target(target)] != n {
			t.Errorf("%s began %d times, want %d; of all %v", target, began[deploylog.Target(target)], n, began)
		}
	}
}

// A task on this machine without a daemon: nobody tells what happens, and all the
// rest is the same.
func TestATaskWithoutADaemon(t *testing.T) {
	w := newWorks(t, "hosts: [{name: here, engine: oci, attributes: {zone: a, disks: [x, y]}}]", "oci",
		vars.Flag{Name: "words", Value: "{of: nobody, then: more}"})
	w.write("vars.auto.yaml", "words: {of: the workspace}\n")
	w.write("hosts/here/.keep", "")
	const text = `
plugs: {root: {path: "hosts/{{ host }}"}}
resources:
  note:
    type: deployster/file
    config: {path: "{{ task }}", content: "{{ words.of }} {{ words.then }} {{ n }} {{ environment }} {{ revision + 1 }} {{ host_attributes.zone }}{{ host_attributes.disks[1] }}"}
`
	task := w.task(7, "here", text, map[string]any{"words": map[string]any{"of": "{{ the task }}"}, "n": 3.0})
	file := filepath.Join("hosts", "here", task.Name())
	w.wantSeen(task, tasks.Unhealthy, "note does not exist")
	w.start(task)
	got, err := os.ReadFile(file)
	assert.Equal(t, "{{ the task }} more 3 Some/Prod 8 ay", string(got), "the file has %q, %v", got, err)
	w.wantSeen(task, tasks.Healthy)
	w.write(file, "something else")
	w.wantSeen(task, tasks.Drifted, "note ~ ")
	w.start(task)
	w.wantSeen(task, tasks.Healthy)
	w.terminate(task)
	assert.ErrorIs(t, must.Fail(os.Stat(file)), os.ErrNotExist, "the file is still there")
	w.terminate(task)

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.worker.Watch(ctx, "here", func() { t.Error("a change is told") })
	}()
	cancel()
	<-ended

	lost := task
	lost.Spec.Digest = strings.Repeat("0", 64)
	w.wantSeen(lost, tasks.Unknown, "m.yaml", lost.Spec.Digest+" is missing", "new revision")
	assert.ErrorContains(t, w.worker.Terminate(t.Context(), lost), "is missing", "its manifest is missing, and terminating")
	away := task
	away.Host = "there"
	w.wantSeen(away, tasks.Unknown, "host there is no longer in inventory.yaml")
	w.worker.ProbeTimeout = 0
	w.wantSeen(task, tasks.Unknown, "host here", "no answer within 0s")
}

func TestWhetherATaskCanBeRemovedIsAskedWhereAHostAnswers(t *testing.T) {
	w := newWorks(t, `hosts:
  - {name: dead1, endpoint: "unix:///none/such"}
  - {name: dead2, endpoint: "unix:///none/either"}
  - {name: dead3, endpoint: "unix:///none/nor"}
  - {name: dead4, endpoint: "unix:///none/this"}
  - {name: here, engine: oci, attributes: {dir: things}}
`, "oci")
	w.write("things/.keep", "")
	d := &definition.Definition{Name: "Some/Prod", Task: definition.TaskSpec{Manifest: "m.yaml", Vars: map[string]any{"value": "one"}}}
	removable := func(typ string, hosts ...string) error {
		text := fmt.Sprintf(`{plugs: {dir: {path: "{{ host_attributes.dir|default('things') }}"}}, resources: {a: {type: %q, config: {value: "{{ value }}"}}}}`, typ)
		draft := work.Draft{Definition: d, Files: work.Carried{"m.yaml": []byte(text)}, Hosts: hosts}
		_, err := w.worker.Removable(t.Context(), draft, func([]manifest.Problem) error { return nil }, func([]runner.SecretUse) error { return nil })
		return err
	}
	for _, hosts := range [][]string{nil, {"here"}, {"dead1", "dead2", "dead3", "dead4", "here"}} {
		assert.NoError(t, removable(slowType, hosts...), "on %v", hosts)
		var invalid *manifest.Error
		if err := removable(fixedType, hosts...); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "m.yaml:1:") || !strings.Contains(err.Error(), "cannot remove it") {
			t.Errorf("on %v: %v", hosts, err)
		}
	}
	err := removable(slowType, "dead1", "dead2")
	for _, says := range []string{"no host answers", "host dead1", "host dead2", "m.yaml"} {
		assert.ErrorContains(t, err, says, "no host answers")
	}
	assert.Zero(t, w.runs(), "the files")
	(&site{T: t, log: w.log}).nothingLeft()
}

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
	require.NoError(t, must.Fail(w.log.Append(t.Context(), terminated, begun)))
	require.NoError(t, w.worker.Terminate(t.Context(), task))
	open, err := w.log.InProgress(t.Context(), begun.Target)
	assert.True(t, err == nil && len(open) == 0, "without an end are %v, %v", open, err)
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
	require.ErrorContains(t, must.Fail(w.worker.Start(t.Context(), bad)), "stay below it", "it was started")
	w.terminate(bad)
	for range 7 {
		require.Error(t, must.Fail(w.worker.Start(t.Context(), bad)), "it was started")
	}
	if got := w.runs(); got != 5+1 { // and the work directories of the processes that are kept
		t.Errorf("the files of %d runs are kept", got)
	}
	good := w.task(1, "antworker001", files, map[string]any{"path": "made"})
	w.start(good)
	w.terminate(good)
	kept, err := os.ReadDir(filepath.Join(w.dir, "files"))
	assert.True(t, err == nil && len(kept) == 1 && kept[0].Name() == "found", "there is %v, %v", kept, err)
}

// What Docker starts again runs whenever one looks, and still is seen to have ended.
func TestATaskThatEndsByItselfIsSeenToHave(t *testing.T) {
	w := newWebs(t)
	w.write(w.health(1), "")
	one := w.task(1, "antworker001", strings.Replace(web, `restart: "no"`, `restart: always`, 1), map[string]any{"image": w.image, "socket": strings.TrimPrefix(w.engine.Address(), "unix://")})
	w.start(one)
	seen := func(restarts int) tasks.ProbeResult {
		for {
			o := w.worker.Observe(t.Context(), one)
			require.True(t, o.Restarts != nil && *o.Restarts <= restarts, "it is %+v, want %d restarts", o, restarts)
			if o.Health == tasks.Healthy && *o.Restarts == restarts {
				return o
			}
		}
	}
	for restarts := range 3 {
		o := seen(restarts)
		assert.Equal(t, (restarts > 0), strings.Contains(o.Restarted, "web ended by itself"), "after %d restarts it says %q", restarts, o.Restarted)
		got, err := w.docker.ContainerInspect(t.Context(), one.Name(), client.ContainerInspectOptions{})
		if err == nil && restarts < 2 { // by hand it would have been somebody's wish
			err = syscall.Kill(got.Container.State.Pid, syscall.SIGKILL)
		}
		require.NoError(t, err)
	}
	w.terminate(one)
}
