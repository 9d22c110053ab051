package cli_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine/enginetest/dockerdtest"
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

// Three engines are three hosts. One of them goes away in the middle of a
// rollout and comes back; the rollout waits for it and ends well.
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

// A scheduler that is killed in the middle of a step leaves it to the one that
// stands by.
func TestAnotherSchedulerTakesOverFromAKilledOne(t *testing.T) {
	s, _ := rollout(t)
	s.deployster("pipeline", "apply", "-f", "gateway.yaml")
	s.deployster("pipeline", "release", "gateway", "1")
	first := s.start("pipeline", "run")
	s.until(1, s.happened("stage-started", "stage/gateway/build"))
	second := s.start("pipeline", "run")
	second.out.until(t, "standing by")
	s.deployster("pipeline", "artifact", "gateway", "1", "x86", "--ref", "gateway-1.tar")
	s.until(1, func(e deploylog.Event) bool {
		return e.Target.Kind() == "run" && strings.Contains(string(e.Target), "deploy.yaml")
	})
	s.kill(first)
	s.until(1, s.happened("stage-finished-successfully", "stage/gateway/prod"))
	s.interrupt(second)
	s.wantOn("antworker003", "1")
	steps := map[string]int{}
	for _, e := range s.events() {
		steps[string(e.Target)+" "+e.Name]++
	}
	for step, n := range steps {
		assert.True(t, n <= 1 || !strings.HasPrefix(step, "host"), "%s is recorded %d times", step, n)
	}
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
