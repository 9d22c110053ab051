package build_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/internal/query/querytest"
)

// Where the inventory cannot be read people learn that, and all that the log knows.
func TestADamagedInventoryHidesNothingOfTheLog(t *testing.T) {
	s := newSite(t, 2)
	s.begin()
	s.dispatch()
	s.wait(12 * time.Second)
	s.must(s.End(1, querytest.Built(12*time.Second)))
	s.must(os.WriteFile("inventory.yaml", []byte("hosts: {\n"), 0o600))
	for command, wants := range map[string][]string{
		"status base":                 {"Dispatching", "1/4", "it is not known which workers there are: ", "inventory.yaml:", "an inventory that can be read"},
		"explain base":                {"nobody is at work on build groups", "it is not known which workers there are: ", "inventory.yaml:", "job/base-1/2"},
		"explain":                     {"it is not known which workers there are: "},
		"forecast base":               {"When base-1 ends is not known", "which workers there are: ", "inventory.yaml:", "3 jobs are left", "longest chain"},
		"status --output json":        {`"reason":"inventory-unreadable"`},
		"forecast base --output json": {`"workers_unknown":"`, `"jobs":3`},
	} {
		out, beside, code := s.run(strings.Fields(command)...)
		assert.Equal(t, 0, code, "%s exits with %d: %s", command, code, beside)
		for _, want := range wants {
			assert.Contains(t, strings.Join(strings.Fields(out), " "), want, "%s does not say %q:\n%s", command, want, out)
		}
		for _, wrong := range []string{"will not end", "no worker serves", `"unserved"`} {
			assert.NotContains(t, out, wrong, command)
		}
	}
	out, beside, code := s.run("status", "base", "--at", "9")
	assert.True(t, code == 0 && !strings.Contains(out, "inventory"), "the past needs no inventory: %d %s %s", code, out, beside)
}

// Whoever has another inventory than a group learns that, and what helps.
func TestAGroupOfAnotherInventorySaysSo(t *testing.T) {
	s := newSite(t, 2)
	_, err := s.Command(t.Context(), build.Submit{
		Triggered: record.Triggered{Name: "base"}, Places: []record.Place{{Platform: "linux/amd64", Inventory: "prod"}}, Jobs: []record.JobSpec{{Package: "gcc"}},
	})
	s.must(err)
	for _, command := range []string{"status base", "explain base", "explain"} {
		out, beside, code := s.run(strings.Fields(command)...)
		text := strings.Join(strings.Fields(out), " ")
		if want := "its workers are of the inventory prod, and the one here is "; code != 0 || !strings.Contains(text, want) {
			t.Errorf("%s exits with %d and does not say %q: %s %s", command, code, want, text, beside)
		}
	}
	for _, command := range []string{"status base", "explain base", "explain", "forecast base", "status base --output json", "forecast base --output json"} {
		out, beside, code := s.run(strings.Fields(command)...)
		for _, wrong := range []string{"no worker serves", "no-worker", "will not end", `"unserved"`} {
			if code != 0 || strings.Contains(out, wrong) {
				t.Errorf("%s exits with %d and says %q, which is not known here: %s %s", command, code, wrong, out, beside)
			}
		}
	}
	out, _, _ := s.run("forecast", "base")
	assert.Contains(t, out, "its workers are of the inventory prod", "a forecast does not say why it knows nothing")
	s.must(os.WriteFile("inventory.yaml", []byte("name: prod\nhosts: [{name: w1, engine: oci}]\n"), 0o600))
	out, _, _ = s.run("status", "base")
	assert.NotContains(t, out, "inventory", "of its own inventory")
}

// This machine does not stand in for an inventory that somebody named and that is not there.
func TestANamedInventoryThatIsNotThereIsRefused(t *testing.T) {
	s := newSite(t, 1)
	s.begin()
	for _, command := range []string{"status base", "status", "explain base", "explain", "forecast base"} {
		out, beside, code := s.run(append(strings.Fields(command), "--inventory", "wrokers.yaml")...)
		if want := "--inventory wrokers.yaml: there is no such file"; code != 3 || out != "" || !strings.Contains(beside, want) {
			t.Errorf("%s exits with %d, not because %q: %s %s", command, code, want, out, beside)
		}
	}
	s.must(os.Remove("inventory.yaml"))
	out, beside, code := s.run("status", "base")
	assert.Zero(t, code, "without an inventory the worker is this machine: %d %s %s", code, out, beside)
}

// A dispatcher does not know yet what reads variables, so it has no flag about that.
func TestADispatcherHasNoStrictness(t *testing.T) {
	s := newSite(t, 1)
	_, beside, code := s.run("run", "--strict", "--until-idle")
	assert.True(t, code != 0 && strings.Contains(beside, "unknown flag: --strict"), "it exits with %d and says %s", code, beside)
}
