package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine/enginetest/dockerdtest"
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
	s.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "hosts", host, "current"))
	if err != nil || string(text) != revision {
		s.Errorf("%s runs %q, want %q: %v", host, text, revision, err)
	}
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
		if n > 1 && strings.HasPrefix(step, "host") {
			t.Errorf("%s is recorded %d times", step, n)
		}
	}
}
