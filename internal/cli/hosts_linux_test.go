package cli_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine/enginetest/dockerdtest"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
)

const gateway = `
pipeline: gateway
stages:
  - {name: build, build: {artifacts: [x86]}}
  - name: beta
    deploy:
      host_groups: [{name: beta, hosts: "attribute:stack == beta"}]
      steps: &steps
        - {event: host-artifact-replicated, manifest: replicate.yaml}
        - {event: host-deployed, manifest: deploy.yaml}
  - name: prod
    deploy:
      host_groups: [{name: prod, hosts: "attribute:stack == prod"}]
      steps: *steps
`

// rollout is a workspace with a pipeline over three engines.
func rollout(t *testing.T) (*site, []*dockerdtest.Engine) {
	s := newSite(t, " {}")
	engines := dockerEngines(t, 3)
	var hosts strings.Builder
	hosts.WriteString("hosts:\n")
	for i, e := range engines {
		stack := "prod"
		if i == 0 {
			stack = "beta"
		}
		fmt.Fprintf(&hosts, "  - {name: antworker%03d, endpoint: %q, attributes: {stack: %s}}\n", i+1, e.Address(), stack)
		require.NoError(t, os.MkdirAll(filepath.Join(s.dir, "hosts", fmt.Sprintf("antworker%03d", i+1)), 0o700))
	}
	writeFiles(t, s.dir, map[string]string{
		"gateway.yaml":   gateway,
		"inventory.yaml": hosts.String(),
		"replicate.yaml": `{plugs: {root: {path: "hosts/{{ host }}"}}, resources: {artifact: {type: deployster/file, config: {path: artifact, content: "{{ artifacts.x86 }}"}}}}`,
		"deploy.yaml":    `{plugs: {root: {path: "hosts/{{ host }}"}}, resources: {current: {type: deployster/file, config: {path: current, content: "{{ revision }}"}}}}`,
	})
	return s, engines
}

func (s *site) happened(name string, t deploylog.Target) func(deploylog.Event) bool {
	return func(e deploylog.Event) bool { return e.Name == name && e.Target == t }
}

func (s *site) wantOn(host, revision string) {
	text, err := os.ReadFile(filepath.Join(s.dir, "hosts", host, "current"))
	assert.True(s, err == nil && string(text) == revision, "%s runs %q, want %q: %v", host, text, revision, err)
}

func TestARolloutOverThreeEnginesOutlivesTheLossOfOne(t *testing.T) {
	s, engines := rollout(t)
	s.deployster("pipeline", "apply", "-f", "gateway.yaml")
	s.deployster("host", "check")
	s.deployster("pipeline", "release", "gateway", "1")
	scheduler := s.start("pipeline", "run")
	s.until(1, s.happened("stage-started", "stage/gateway/build"))

	engines[2].Stop()
	s.deployster("pipeline", "artifact", "gateway", "1", "x86", "--ref", "gateway-1.tar")
	s.until(1, func(e deploylog.Event) bool { return e.Name == "pipeline-failed" })
	s.wantOn("antworker001", "1")
	assert.Contains(t, s.deployster("pipeline", "explain", "gateway"), "antworker003", "explain does not tell which host is away")

	engines[2].Start()
	s.deployster("pipeline", "retry", "gateway", "1")
	s.until(1, s.happened("pipeline-finished-successfully", "pipeline/gateway"))
	for _, host := range []string{"antworker001", "antworker002", "antworker003"} {
		s.wantOn(host, "1")
	}

	// With retries, a host may be away for a while.
	patient := strings.ReplaceAll(gateway, ".yaml}", ".yaml, retries: 20}")
	s.write("gateway.yaml", patient)
	s.deployster("pipeline", "apply", "-f", "gateway.yaml", "--yes")
	engines[1].Stop()
	s.deployster("pipeline", "release", "gateway", "2")
	s.deployster("pipeline", "artifact", "gateway", "2", "x86", "--ref", "gateway-2.tar")
	scheduler.out.until(t, "is tried again")
	engines[1].Start()
	s.until(2, s.happened("pipeline-finished-successfully", "pipeline/gateway"))
	for _, host := range []string{"antworker001", "antworker002", "antworker003"} {
		s.wantOn(host, "2")
	}
	s.signal(scheduler, os.Interrupt)
	s.wantEnd(scheduler, 130)
}

// A task that is well is looked at again by asking its types alone. Whatever is not as it
// was, on its host, in the inventory or on this machine, is noticed by the next look.
func TestATaskThatIsLookedAtAgain(t *testing.T) {
	const inventory = "hosts: [{name: here, engine: oci, attributes: {zone: a}}]"
	w := newWorks(t, inventory, "oci")
	w.write("hosts/here/.keep", "")
	task := w.task(1, "here", `
plugs: {root: {path: "hosts/{{ host }}"}}
resources: {note: {type: deployster/file, config: {path: note, content: "{{ host_attributes.zone }}"}}}
`, nil)
	carried := must.Get(revision.Variables{Salt: strings.Repeat("0", 64)}.Encode())(t)
	store := objects.In(filepath.Join(w.dir, ".deployster", "objects"), nil)
	digest := must.Get(store.Keep(carried))(t)
	task.Spec.Includes = map[string]string{revision.VariablesName: digest}
	note := filepath.Join(w.dir, "hosts", "here", "note")
	well := func() {
		w.start(task)
		for range 3 {
			w.wantSeen(task, tasks.Healthy)
		}
	}

	well()
	manifest := filepath.Join(w.dir, ".deployster", "objects", "sha256", task.Spec.Digest)
	require.NoError(t, os.Rename(manifest, manifest+".away"))
	w.wantSeen(task, tasks.Healthy) // nothing is read for it: what it is to be has not changed
	require.NoError(t, os.Rename(manifest+".away", manifest))

	w.write("hosts/here/note", "something else")
	w.wantSeen(task, tasks.Drifted, "note ~ ")
	well()
	require.NoError(t, os.Remove(note))
	w.wantSeen(task, tasks.Unhealthy, "note does not exist")
	well()
	w.write("inventory.yaml", strings.Replace(inventory, "zone: a", "zone: another", 1))
	w.wantSeen(task, tasks.Drifted, "note ~ ")
	well()
	here := filepath.Dir(note)
	require.NoError(t, os.Rename(here, here+".away"))
	w.wantSeen(task, tasks.Unknown, "hosts/here")
	require.NoError(t, os.Symlink(filepath.Join(w.dir, ".deployster"), here))
	w.wantSeen(task, tasks.Unknown, "no type may see")
	require.NoError(t, errors.Join(os.Remove(here), os.Rename(here+".away", here)))
	w.wantSeen(task, tasks.Healthy)
	w.terminate(task)
	w.wantSeen(task, tasks.Unhealthy, "note does not exist")
	if left, err := os.ReadDir(filepath.Join(w.dir, ".deployster", "work")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	} else if len(left) > 8 {
		t.Errorf("looks leave files: %v", left)
	}
}

// daemons is a workspace with an environment over three engines. Its tasks are
// containers that are healthy as long as the file of their revision is there.
type daemons struct {
	*site
	engines []*dockerdtest.Engine
}

const daemon = `
plugs: {docker: {path: "{{ host_attributes.socket }}"}}
resources:
  daemon:
    type: deployster/container
    config:
      name: "{{ task }}"
      image: "{{ image }}"
      command: [hang]
      env: {VERSION: "v{{ version }}"}
      networks: [none]
      labels: {environment: "{{ environment }}", revision: "r{{ revision }}", host: "{{ host }}"}
      mounts: [{path: "{{ _workspace }}/health/{{ version }}", target: /health, read_only: true}]
      health: {command: [/probe, read, /health/good], interval: 200ms, timeout: 10m, retries: 1}
`

const logging = `
name: logging/prod
task: {manifest: daemon.yaml, vars: {image: "deployster-test-probe:1", version: "1"}}
instance_group: {query: "attribute:stack == prod"}
deployment: {method: Replace, min_healthy_percent: 60, healthy_deadline: 10m, progress_deadline: 20m, min_healthy_time: 0s}
`

func newDaemons(t *testing.T) *daemons {
	t.Helper()
	d := &daemons{site: newSite(t, " {}"), engines: dockerEngines(t, 3)}
	for _, e := range d.engines {
		loadProbe(t, e.Address())
	}
	d.write("daemon.yaml", daemon)
	d.write("prod.yaml", logging)
	d.write("health/1/good", "")
	require.NoError(t, os.MkdirAll(filepath.Join(d.dir, "health", "bad"), 0o700))
	d.inventory(0, 1, 2)
	return d
}

// inventory makes these engines the hosts that there are.
func (d *daemons) inventory(engines ...int) {
	var text strings.Builder
	text.WriteString("hosts:\n")
	for _, i := range engines {
		address := d.engines[i].Address()
		fmt.Fprintf(&text, "  - {name: logger%03d, endpoint: %q, attributes: {stack: prod, socket: %q}}\n", i+1, address, strings.TrimPrefix(address, "unix://"))
	}
	d.write("inventory.yaml", text.String())
}

// running are the revisions whose containers run on an engine.
func (d *daemons) running(i int) (revisions []string) {
	api := must.Get(client.New(client.WithHost(d.engines[i].Address())))(d)
	defer func() { _ = api.Close() }()
	list := must.Get(api.ContainerList(d.Context(), client.ContainerListOptions{Filters: client.Filters{}.Add("label", "environment=logging/prod")}))(d)
	for _, c := range list.Items {
		revisions = append(revisions, c.Labels["revision"])
	}
	slices.Sort(revisions)
	return revisions
}

func (d *daemons) wantRunning(want ...string) {
	for i := range d.engines {
		assert.Equal(d, want[i], strings.Join(d.running(i), " "), "on engine %d runs", i+1)
	}
}

func (d *daemons) killTask(i int) {
	api := must.Get(client.New(client.WithHost(d.engines[i].Address())))(d)
	defer func() { _ = api.Close() }()
	list, err := api.ContainerList(d.Context(), client.ContainerListOptions{Filters: client.Filters{}.Add("label", "environment=logging/prod")})
	require.True(d, err == nil && len(list.Items) == 1, "there are the containers %v, %v", list.Items, err)
	require.NoError(d, must.Fail(api.ContainerKill(d.Context(), list.Items[0].ID, client.ContainerKillOptions{Signal: "KILL"})))
}

// status wants the table that env status prints to begin like that.
func (d *daemons) status(want string) {
	got := strings.Fields(d.deployster("env", "status", "logging/prod"))
	words := strings.Fields("REVISION STATUS DESIRED CURRENT " + want)
	assert.True(d, len(got) >= len(words) && slices.Equal(got[:len(words)], words), "status:\n%s\nwant:\n%s", got, words)
}

// after returns a condition that an event of that name comes after all there is.
func (d *daemons) after(name string) func(deploylog.Event) bool {
	all := d.events()
	last := all[len(all)-1].Seq
	return func(e deploylog.Event) bool { return e.Seq > last && e.Name == name }
}

func TestAnEnvironmentOverThreeEngines(t *testing.T) {
	d := newDaemons(t)
	d.deployster("env", "create", "-f", "prod.yaml", "--allow-logged", "version")
	d.status("logging/prod:1 Created 0 0")
	d.deployster("env", "deploy", "logging/prod", "--revision", "1", "--wait")
	d.status("logging/prod:1 Active 3 3")
	d.wantRunning("r1", "r1", "r1")

	// A bad revision takes one host, and no more; it is stuck, and says why.
	d.deployster("env", "update", "logging/prod", "--base", "1", "--set", "task.vars.version=bad", "--set", "deployment.max_failed=0")
	bad := d.start("env", "deploy", "logging/prod", "--revision", "2", "--wait")
	d.wantEnd(bad, 1, "is stuck", "1 host failed, and max_failed is 0", "logger001", "is unhealthy")
	d.status("logging/prod:1 Undeploying 0 2 logging/prod:2 Stuck 3 0")
	out := d.deployster("explain", "environment/logging/prod")
	assert.True(t, strings.Contains(out, "logger002") && strings.Contains(out, "max_failed is 0"), "explain:\n%s", out)
	d.deployster("env", "rollback", "logging/prod", "--revision", "1", "--wait")
	d.status("logging/prod:1 Active 3 3 logging/prod:2 Reverted 0 0")
	d.wantRunning("r1", "r1", "r1")

	// A controller keeps it so.
	controller := d.start("env", "run")
	died := d.after(record.TaskFinished)
	d.killTask(1)
	d.until(1, died)
	d.wantRunning("r1", "r1", "r1")

	gone := d.after(record.HostsChanged)
	d.inventory(0, 1)
	d.until(1, gone)
	d.status("logging/prod:1 Active 2 2")
	back := d.after(record.TaskRecovered) // it ran all the time
	d.inventory(0, 1, 2)
	d.until(1, back)
	d.status("logging/prod:1 Active 3 3")

	// An engine that goes away and comes back, too.
	gone = d.after(record.TaskLost)
	died = d.after(record.TaskDied)
	away := func(e deploylog.Event) bool { return gone(e) || died(e) } // as the engine says, or does not
	d.engines[2].Stop()
	d.until(1, away)
	home := d.after(record.TaskFinished)
	d.engines[2].Start()
	d.until(1, home)
	d.wantRunning("r1", "r1", "r1")

	d.signal(controller, os.Interrupt)
	d.wantEnd(controller, 130)
	d.deployster("env", "delete", "logging/prod", "--terminate-tasks", "--yes", "--wait")
	d.wantRunning("", "", "")
}
