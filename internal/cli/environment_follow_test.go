package cli_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
)

// shop is a workspace with an environment of some hosts, of which nothing is
// deployed. What a host has is in a directory of its name.
func shop(t *testing.T, configuration string, hosts ...string) *site {
	s := newSite(t, " {}")
	inventory := "hosts:\n"
	for _, host := range hosts {
		inventory += "  - {name: " + host + ", engine: oci}\n"
		s.makeDirectory(host)
	}
	writeFiles(t, s.dir, map[string]string{
		"shop.yaml":      "name: shop\ntask: {manifest: task.yaml}\ninstance_group: {query: name exists}\ndeployment: {method: Replace, min_healthy_percent: 0, " + configuration + "}\n",
		"inventory.yaml": inventory,
		"task.yaml":      task("daemon"),
		"bad.yaml":       task("bad"),
	})
	s.deployster("env", "create", "-f", "shop.yaml")
	return s
}

func task(resource string) string {
	return "plugs: {dir: {path: 'things/{{ host }}'}}\nresources:\n  " + resource + ": {type: '" + slowType + "', config: {value: 'v{{ revision }}'}}\n"
}

func (s *site) makeDirectory(name string) { require.NoError(s, os.Mkdir(s.thing(name), 0o700)) }

func (s *site) interrupt(r *run) {
	s.signal(r, os.Interrupt)
	s.wantEnd(r, 130)
}

func recorded(name string) func(deploylog.Event) bool {
	return func(e deploylog.Event) bool { return e.Name == name }
}

func TestADeploymentIsFollowedOnATerminal(t *testing.T) {
	t.Parallel()
	s := shop(t, "min_healthy_time: 0s", "one")
	screen, code := s.terminal("", "env", "deploy", "shop", "--revision", "1", "--wait")
	assert.True(t, code == 0 && strings.Contains(screen, "has finished: 1 host healthy"), "exit %d, on the screen is\n%s", code, screen)
	for _, want := range []string{"REVISION", "shop:1", "Active", "\x1b[?25h"} {
		assert.Contains(t, screen, want, "is")
	}
	screen, code = s.terminal("n", "env", "delete", "shop", "--terminate-tasks")
	if code != 1 || !strings.Contains(screen, "Delete environment shop (1 task is terminated)? [y/N]") || !strings.Contains(screen, "nothing was changed") {
		t.Errorf("declined: exit %d, on the screen is\n%s", code, screen)
	}
	screen, code = s.terminal("y", "env", "delete", "shop", "--terminate-tasks", "--wait")
	_, err := os.Stat(s.thing("one/daemon"))
	assert.True(t, code == 0 && err != nil, "exit %d, and the task is there (%v); on the screen is\n%s", code, err, screen)
}

// Who waits for a deployment that waits for a person is told what that person types; a restart of
// a host that is named waits for nobody.
func TestWhoFollowsADeploymentInStepsIsToldToPromoteIt(t *testing.T) {
	t.Parallel()
	s := shop(t, "min_healthy_time: 0s, steps: [{hosts: 1}, {hosts: 2, pause: 1h}, {hosts: 100%}]", "one", "two", "three")
	r := s.start("env", "deploy", "shop", "--revision", "1", "--wait")
	r.out.until(t, "step 1 of 3 is done: the deployment waits for somebody to let it go on by deployster env promote shop")
	s.deployster("env", "promote", "shop")
	r.out.until(t, ", at once by deployster env promote shop")
	s.deployster("env", "promote", "shop")
	if code := s.exit(r); code != 0 || strings.Count(r.out.String(), "deployster env promote shop") != 2 {
		t.Errorf("exit %d\n%s", code, r.out)
	}
	if said := s.deployster("env", "restart", "shop", "three", "--wait"); strings.Contains(said, "step") || !strings.Contains(said, "has finished: 3 hosts healthy") {
		t.Errorf("a restart of one host says\n%s", said)
	}
}

func TestAnInterruptedDeploymentStaysInForce(t *testing.T) {
	t.Parallel()
	s := shop(t, "min_healthy_time: 1h, healthy_deadline: 2h, progress_deadline: 3h", "one")
	r := s.start("env", "deploy", "shop", "--revision", "1", "--wait")
	s.until(1, recorded(record.TaskLaunched))
	s.interrupt(r)
	assert.Contains(t, r.out.String(), "the deployment stays active: deployster env run shop", "it said\n%s", r.out)
	assert.Contains(t, s.deployster("env", "status", "shop"), "Deploying    1         0", "the status")
	s.deployster("env", "pause", "shop", "--reason", "tea")
	why := s.deployster("explain", "environment/shop")
	assert.True(t, strings.Contains(why, "paused by") && strings.Contains(why, "tea"), "explained is\n%s", why)
}

func TestWhoFollowsLeavesTheWorkToWhoIsAtIt(t *testing.T) {
	t.Parallel()
	s := shop(t, "min_healthy_time: 0s", "one")
	at := s.start("env", "run", "--output", "json")
	at.out.until(t, `"command":"env run"`)
	s.deployster("env", "deploy", "shop", "--revision", "1")
	s.until(1, recorded(record.EnvironmentFinished))
	s.deployster("env", "update", "shop", "--base", "1", "--set", "task.vars.a=1")
	s.hold("one/daemon")
	follower := s.start("env", "deploy", "shop", "--revision", "2", "--wait")
	s.untilBusy("one/daemon")
	follower.out.until(t, "standing by")
	s.release("one/daemon")
	s.wantEnd(follower, 0, "has finished: 1 host healthy")
	s.interrupt(at)
}

func TestWhoFollowsADeploymentFollowsAnotherOfItsRevision(t *testing.T) {
	t.Parallel()
	s := shop(t, "min_healthy_time: 0s", "one")
	s.hold("one/daemon")
	first := s.start("env", "deploy", "shop", "--revision", "1", "--wait")
	s.untilBusy("one/daemon")
	second := s.start("env", "deploy", "shop", "--revision", "1", "--wait")
	s.until(1, recorded(record.EnvironmentFailed))
	s.release("one/daemon")
	for _, follower := range []*run{first, second} {
		s.wantEnd(follower, 0, "has finished: 1 host healthy")
	}
}

// It is stuck because of what failed on one host, while the other is worked on.
func TestADeploymentThatRollsItselfBackIsFollowedToThatEnd(t *testing.T) {
	t.Parallel()
	s := shop(t, "min_healthy_time: 0s", "one", "two")
	s.deployster("env", "deploy", "shop", "--revision", "1", "--wait")
	s.deployster("env", "update", "shop", "--base", "1", "--set", "task.manifest=bad.yaml",
		"--set", "deployment.max_failed=0", "--set", "deployment.auto_rollback=true")
	s.hold("one/bad")
	s.hold("two/bad")
	s.makeDirectory("two/bad") // which cannot be written as a file
	follower := s.start("env", "deploy", "shop", "--revision", "2", "--wait")
	s.untilBusy("one/bad")
	s.untilBusy("two/bad")
	s.release("two/bad")
	s.until(1, recorded(record.EnvironmentStuck))
	s.release("one/bad")
	s.wantEnd(follower, 1, "was stuck, and was rolled back to revision 1")
	if status := s.deployster("env", "status", "shop"); status != "REVISION    STATUS       DESIRED   CURRENT\nshop:1      Active       2         2\nshop:2      Reverted     0         0\n" {
		t.Errorf("the status is\n%s", status)
	}
	for _, thing := range []string{"one/daemon", "two/daemon"} {
		s.wantThing(thing, "v1")
	}
}
