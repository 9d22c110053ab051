package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/runner/report"
)

// The commands that save a plan of a server, and apply it.
var (
	planThere  = []string{"plan", "m.yaml", "-o", "m.plan", "--allow-logged", "word"}
	applyThere = []string{"apply", "m.plan", "--yes", "--allow-logged", "word"}
)

// write writes a file where the commands are given.
func (c asker) write(t *testing.T, name, text string) {
	t.Helper()
	writeFiles(t, c.dir, map[string]string{name: text})
}

// read reads a file where the commands are given.
func (c asker) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	require.NoError(t, err)
	return string(text)
}

// here is a command that is given in the same place without a server.
func (c asker) here(args ...string) (string, int) {
	cmd := exec.Command(c.program, args...)
	cmd.Dir = c.dir
	text, _ := cmd.CombinedOutput()
	return string(text), cmd.ProcessState.ExitCode()
}

// set makes a thing something else; "" removes it.
func (s *site) set(name, text string) {
	s.Helper()
	err := os.Remove(s.thing(name))
	if text != "" {
		err = os.WriteFile(s.thing(name), []byte(text), 0o600)
	}
	require.NoError(s, err)
}

// A plan that a server made is saved by who asked for it, as a plan is here, and is applied by that
// server alone, as it was made.
func TestAPlanIsSavedThroughAServer(t *testing.T) {
	t.Parallel()
	s, server, far := applySite(t, newSite)
	want, _ := far.here("plan", "m.yaml", "-o", "local.plan")
	got, code := far.run(t, planThere...)
	if code != 0 || untimed(got) != strings.ReplaceAll(untimed(want), "local.plan", "m.plan") {
		t.Errorf("exit %d\nthere\n%s\nhere\n%s", code, got, want)
	}
	slash := far // is the same server
	slash.server += "/"
	slash.want(t, 3, "leaves 1 resource open (b), and there is nobody to ask", "apply", "m.plan")
	whole := far.read(t, "m.plan")
	assert.Contains(t, whole, `"server": "`+far.server+`"`, "the plan says")
	far.want(t, 0, "Plan: 1 to change, 0 unchanged, 1 known after apply.", "plan", "m.plan")

	if text, code := far.here("apply", "m.plan", "--yes"); code != 3 || !strings.Contains(text, "was made through server "+far.server+", and is not applied here: apply it with --server "+far.server) {
		t.Errorf("exit %d\n%s", code, text)
	}
	other := far
	other.server = "http://" + server.address(t)
	other.want(t, 3, "is not applied through server http://", applyThere...)
	far.want(t, 3, "was made without a server", "apply", "local.plan", "--yes")
	far.want(t, 3, "leaves 1 resource open (b), and there is nobody to ask", "apply", "m.plan")
	far.want(t, 3, "--target is not possible with a saved plan", append(applyThere, "--target", "a")...)
	far.want(t, 3, "--memory is said to the server", append(applyThere, "--memory", "1GiB")...)
	far.want(t, 3, "-o with --destroy", append(planThere, "--destroy")...)
	far.want(t, 3, "is no saved plan, so it is not overwritten", "plan", "m.yaml", "-o", "m.yaml", "--allow-logged", "word")
	for _, c := range []struct{ words, text string }{
		{"ends within the plan", whole[:len(whole)/2]},
		{"was changed after it was made", strings.Replace(whole, `"from here part"`, `"from there part"`, 1)},
		{"was changed after it was made", strings.Replace(whole, far.server, other.server, 1)},
	} {
		far.write(t, "m.plan", c.text)
		far.want(t, 3, c.words, applyThere...)
	}
	far.write(t, "m.plan", whole)
	far.write(t, "vars.auto.yaml", "word: another\n")
	far.want(t, 3, "the variables are not those with which the plan m.plan was made", applyThere...)
	far.write(t, "vars.auto.yaml", "word: from here\n")
	if begun := s.begun(); len(begun) > 0 {
		t.Errorf("what is refused has begun: %v", begun)
	}
	far.write(t, "conf/part", "altered")
	far.want(t, 1, "not as planned: its configuration is another one", applyThere...)
	s.wantThing("a", "")
	s.end(server)
	s.wantTruth()
}

// Nothing of a saved plan is kept by the server that made it: it is applied, and nothing else is,
// also when that server was killed in between.
func TestASavedPlanIsAppliedThroughAServer(t *testing.T) {
	t.Parallel()
	s, server, far := applySite(t, newSite)
	far.want(t, 0, "Saved to m.plan", planThere...)
	s.kill(server)
	server = s.serve("socket", "--listen", "127.0.0.1:0", "--output", "json")
	far.want(t, 0, "2 changed", applyThere...)
	s.wantThing("b", "from here part")
	s.until(1, func(e deploylog.Event) bool {
		return e.Name == string(report.RunStarted) && strings.Contains(string(e.Data), `"plan":"sha256:`)
	})

	s.set("b", "")
	far.want(t, 0, "Saved to m.plan", planThere...)
	s.set("a", "somebody else")
	far.want(t, 1, "not as planned", applyThere...)
	s.wantThing("a", "somebody else")

	// What a plan leaves open is asked for once, here.
	s.set("a", "")
	far.want(t, 0, "Saved to m.plan", planThere...)
	once := []string{"apply", "m.plan", "--confirm", "ONCE", "--allow-logged", "word"}
	if screen, code := far.asked(t, func() {}, "n", once...); code != 1 || !strings.Contains(screen, "declined: nothing was changed") {
		t.Errorf("exit %d\n%s", code, screen)
	}
	s.wantThing("a", "")
	if screen, code := far.asked(t, func() {}, "y", once...); code != 0 {
		t.Errorf("exit %d\n%s", code, screen)
	}
	s.wantThing("b", "from here part")
	s.end(server)
	s.wantTruth()
}
