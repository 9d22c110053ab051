package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/deploylog"
)

// onePipeline has revision 1 at work on resource a, which is held, in the only stage of a
// pipeline, whose scheduler is returned.
func onePipeline(t *testing.T, stage string) (*site, *run) {
	s := newDockerSite(t, "  a: {type: ONE-SHOT, config: {value: one}}")
	if err := os.WriteFile(filepath.Join(s.dir, "one.yaml"), []byte("pipeline: one\nstages: [{name: all, run: {manifest: m.yaml"+stage+"}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.deployster("pipeline", "apply", "-f", "one.yaml")
	s.deployster("pipeline", "release", "one", "1")
	s.hold("a")
	r := s.start("pipeline", "run")
	s.untilBusy("a")
	return s, r
}

// The scheduler is killed in the midst of a step, and its deployment cancelled: the next
// revision enters when the container that was left has ended.
func TestTheNextRevisionEntersWhenWhatAKilledSchedulerLeftHasEnded(t *testing.T) {
	t.Parallel()
	s, first := onePipeline(t, "")
	s.kill(first)
	s.deployster("pipeline", "cancel", "one", "1")
	s.deployster("pipeline", "release", "one", "2")
	second := s.start("pipeline", "run", "--until-idle")
	<-time.After(3 * time.Second) // nothing tells that it waits
	assert.Equal(t, 1, entered(s), "revisions have entered the stage")
	if out := s.deployster("pipeline", "explain", "one"); strings.Count(out, "stage-manifest-applied of stage/one/all is still being done for revision 1, since ") != 2 {
		t.Errorf("explain says\n%s", out)
	}
	s.release("a")
	s.wantEnd(second, 0)
	s.until(1, s.happened("pipeline-finished-successfully", "pipeline/one"))
	var names []string
	for _, e := range s.events() {
		if e.Target.Kind() == "pipeline" || e.Target.Kind() == "stage" || e.Target.Kind() == "action" {
			names = append(names, e.Name)
		}
	}
	ended, next := slices.Index(names, "action-finished-successfully"), slices.Index(names, "pipeline-steps-ended")
	assert.True(t, ended >= 0 && next >= ended && slices.Equal(names[next+1:next+2], []string{"stage-started"}), "the log tells %q", names)
}

// entered is how many revisions have entered the stage.
func entered(s *site) (n int) {
	for _, e := range s.events() {
		if e.Name == "stage-started" && e.Target == deploylog.Target("stage/one/all") {
			n++
		}
	}
	return n
}

func TestATimeoutStopsWhatRuns(t *testing.T) {
	t.Parallel()
	s, r := onePipeline(t, ", timeout: 40s") // in which the action is to have begun
	s.until(1, s.happened("pipeline-failed", "pipeline/one"))
	for _, e := range s.events() {
		if e.Name == "stage-manifest-applied-failed" && !strings.Contains(string(e.Data), "it took longer than its timeout of 40s, and was stopped") {
			t.Errorf("the log tells of the try %s", e.Data)
		}
	}
	s.interrupt(r)
	s.release("a")
}

func TestASecondSignalEndsASchedulerWhoseEngineHangs(t *testing.T) {
	t.Parallel()
	s, w := newDockerSite(t, "  a: {type: ONE-SHOT, config: {value: one}}"), newWire(t)
	s.write("one.yaml", "pipeline: one\nstages: [{name: all, deploy: {host_groups: [{name: g, hosts: \"attribute:x == y\"}], steps: [{event: host-deployed, manifest: m.yaml}]}}]\n")
	s.write("inventory.yaml", fmt.Sprintf("hosts: [{name: h, endpoint: %q, attributes: {x: y}}]\n", w.address()))
	s.deployster("pipeline", "apply", "-f", "one.yaml")
	s.deployster("pipeline", "release", "one", "1")
	s.hold("a")
	r := s.start("pipeline", "run")
	s.untilBusy("a")
	w.hang()
	for _, answer := range []string{"interrupt again", "killing"} {
		s.signal(r, os.Interrupt)
		r.out.until(t, answer)
	}
	s.wantEnd(r, 130)
	w.answer()
	s.release("a")
	s.deployster("pipeline", "run", "--until-idle")
	s.until(1, s.happened("pipeline-finished-successfully", "pipeline/one"))
}
