package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/runner"
)

func TestHowATaskIsGoingByItsResources(t *testing.T) {
	change := func(path string) runner.Change { return runner.Change{Path: path, Op: runner.Modify, Old: 1, New: 2} }
	resource := func(name string, status runner.Status, diff ...runner.Change) runner.ResourceDrift {
		return runner.ResourceDrift{Name: name, Status: status, Diff: diff}
	}
	ill := map[string]map[string]any{"sick": {"running": true, "healthy": false}, "dead": {"running": false, "healthy": false}}
	for _, tc := range []struct {
		name   string
		found  []runner.ResourceDrift
		health environment.Health
		detail string
	}{
		{"nothing differs", []runner.ResourceDrift{resource("a", runner.Valid), resource("b", runner.Valid)}, environment.Healthy, ""},
		{"there are no resources", nil, environment.Healthy, ""},
		{"something is missing", []runner.ResourceDrift{
			{Name: "a", Status: runner.Stale, Missing: true}, {Name: "b", Status: runner.Unknown, Because: []string{"a"}}, resource("c", runner.Stale, change("x")),
		}, environment.Unhealthy, "a does not exist"},
		{"what is VALID says that it is not healthy", []runner.ResourceDrift{resource("sick", runner.Valid)}, environment.Unhealthy, "sick is not healthy"},
		{"what is STALE says so", []runner.ResourceDrift{resource("sick", runner.Stale), resource("dead", runner.Stale)}, environment.Unhealthy, "sick is not healthy; dead does not run"},
		{"something is ill and something can not be asked", []runner.ResourceDrift{
			resource("dead", runner.Stale), {Name: "b", Status: runner.Failed, Error: "no"},
		}, environment.Unhealthy, "dead does not run"},
		{"something can not be asked and something drifted", []runner.ResourceDrift{
			{Name: "b", Status: runner.Failed, Error: "state exited with 1"}, resource("c", runner.Stale, change("x")),
		}, environment.Unknown, "b: state exited with 1"},
		{"a state is needed that nobody has", []runner.ResourceDrift{{Name: "b", Status: runner.Unknown, Because: []string{"a", "c"}}},
			environment.Unknown, "b: it can not be asked for without the state of a, c"},
		{"a few values differ", []runner.ResourceDrift{resource("a", runner.Stale, change("x"), change("y")), resource("b", runner.Stale)},
			environment.Drifted, "a ~ x: 1 → 2\na ~ y: 1 → 2\nb is not as configured; its type does not tell in what"},
		{"many differ", []runner.ResourceDrift{resource("a", runner.Stale, change("1"), change("2"), change("3"), change("4"), change("5"), change("6"), change("7"))},
			environment.Drifted, "a ~ 1: 1 → 2\na ~ 2: 1 → 2\na ~ 3: 1 → 2\na ~ 4: 1 → 2\na ~ 5: 1 → 2\nand 2 more"},
	} {
		got := seen(&runner.DriftReport{Resources: tc.found}, func(name string) map[string]any { return ill[name] })
		if want := (environment.Observation{Health: tc.health, Detail: tc.detail}); got != want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", tc.name, got, want)
		}
	}
}

func TestNumbersOfTheLogAreWhatTheyWereInYAML(t *testing.T) {
	got := whole(map[string]any{"n": 3.0, "f": 1.5, "big": 1e300, "list": []any{2.0, "2", nil, true}, "in": map[string]any{"n": -1.0}})
	want := map[string]any{"n": int64(3), "f": 1.5, "big": 1e300, "list": []any{int64(2), "2", nil, true}, "in": map[string]any{"n": int64(-1)}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestAManifestIsKeptAsItWas(t *testing.T) {
	p := pinnedBelow(t.TempDir())
	text := "resources: {} # a secret\n"
	digest, err := p.keep([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.load(digest); err != nil || string(got) != text {
		t.Errorf("got %q, %v", got, err)
	}
	for path, mode := range map[string]os.FileMode{p.dir: 0o700 | os.ModeDir, p.path(digest): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s has mode %v, want %v (%v)", path, info.Mode(), mode, err)
		}
	}

	fails := func(what, digest string, says ...string) {
		t.Helper()
		got, err := p.load(digest)
		if err == nil {
			t.Fatalf("%s: it is %q", what, got)
		}
		for _, text := range says {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %q does not say %q", what, err, text)
			}
		}
	}
	if err := os.WriteFile(p.path(digest), []byte(text+"#"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails("altered", digest, p.path(digest), "changed", "env update")
	if again, err := p.keep([]byte(text)); err != nil || again != digest {
		t.Fatal(again, err)
	}
	if got, err := p.load(digest); err != nil || string(got) != text {
		t.Errorf("kept again: got %q, %v", got, err)
	}
	if err := os.Remove(p.path(digest)); err != nil {
		t.Fatal(err)
	}
	fails("lost", digest, p.path(digest), "gone", "env update")
	for _, bad := range []string{"", "../../m", strings.ToUpper(digest), digest[:10], filepath.Join("..", digest)} {
		fails("no digest", bad, "SHA-256")
	}
	if left, err := os.ReadDir(p.dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
