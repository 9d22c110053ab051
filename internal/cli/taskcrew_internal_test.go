package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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
		if want := (environment.ProbeResult{Health: tc.health, Detail: tc.detail}); got != want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", tc.name, got, want)
		}
	}
}

func TestAHostIsGoneOnlyWhenAnInventorySaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inventory.yaml")
	h := newHosts(path)
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h.Version() // looks at the file
	}
	if h.Version(); !h.Known("one") {
		t.Error("a host is gone because the file is not there")
	}
	write("{{{")
	if !h.Known("one") {
		t.Error("a host is gone because the file can not be read")
	}
	write("hosts: [{name: one, engine: oci}]")
	if !h.Known("one") || h.Known("two") {
		t.Errorf("of one and two, known are %t and %t", h.Known("one"), h.Known("two"))
	}
	write("hosts: [{name: o")
	if !h.Known("one") || h.Known("two") {
		t.Errorf("since the file is broken, known of one and two are %t and %t", h.Known("one"), h.Known("two"))
	}
}

type recorded []runner.EventKind

func (r *recorded) Record(_ context.Context, e runner.Event) error {
	*r = append(*r, e.Kind)
	return nil
}

func TestWhyATaskFailedIsToldWithTheLastWordsOfItsActions(t *testing.T) {
	var log recorded
	words := &lastWords{Recorder: &log}
	cause := errors.New("web: it failed")
	if got := words.with(cause); got != cause { //nolint:errorlint // the very same
		t.Errorf("without words it is %v", got)
	}
	for _, e := range []runner.Event{
		{Kind: runner.ActionStarted},
		{Kind: runner.ActionFailed, Error: "exited with 1: error: no", Output: []string{"the port", "is taken", "error: no"}},
		{Kind: runner.ActionFailed, Error: "it was killed", Output: []string{"loading"}},
		{Kind: runner.ActionFailed, Error: "it never began"},
	} {
		if err := words.Record(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	got := words.with(cause)
	if want := "web: it failed\nthe port\nis taken\nloading"; got.Error() != want || !errors.Is(got, cause) {
		t.Errorf("it is %q, want %q", got, want)
	}
	if len(log) != 4 {
		t.Errorf("recorded are %v", log)
	}
}

// Whoever was the first to ask for an engine may give up; that is not the fault of
// those who waited for it.
func TestAnEngineIsOpenedThoughWhoAskedFirstGaveUp(t *testing.T) {
	c := &stations{hosts: newHosts("none.yaml"), opened: map[stationKey]*station{}}
	first, second := &station{err: context.Canceled}, &station{}
	for _, s := range []*station{first, second} {
		s.once.Do(func() {})
	}
	key := stationKey{host: "one"}
	c.opened[key] = first
	if _, err := c.at(t.Context(), "one"); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("it was not tried again: %v", err)
	}
	c.opened[key] = second
	if got, err := c.at(t.Context(), "one"); got != second || err != nil {
		t.Errorf("the engine that is open was not taken: %v", err)
	}
}

func TestAnEnvironmentIsIdleAndNotWell(t *testing.T) {
	rows := []environment.Row{{Revision: 1, Current: 1}, {Revision: 2, Desired: 3, Current: 3}}
	short := []environment.Row{{Revision: 1, Current: 1}, {Revision: 2, Desired: 3, Current: 2}}
	finished := &environment.Deployment{Revision: 2, Status: environment.DeploymentFinished}
	for name, tc := range map[string]struct {
		report environment.Report
		want   string
	}{
		"nothing was deployed":   {environment.Report{Rows: rows}, ""},
		"all are healthy":        {environment.Report{Rows: rows, Deployment: finished}, ""},
		"a host is not":          {environment.Report{Rows: short, Deployment: finished}, "only 2 of 3 hosts healthy: shop"},
		"that is paused":         {environment.Report{Rows: short, Deployment: finished, Pause: &environment.PauseInfo{}}, ""},
		"that is deleted":        {environment.Report{Rows: short, Deployment: finished, Deleted: true}, ""},
		"its deployment is":      {environment.Report{Rows: short, Deployment: &environment.Deployment{Revision: 2, Status: environment.DeploymentStuck}}, "stuck: shop"},
		"that, and it is paused": {environment.Report{Rows: rows, Deployment: &environment.Deployment{Revision: 2, Status: environment.DeploymentStuck}, Pause: &environment.PauseInfo{}}, "stuck: shop"},
	} {
		tc.report.Environment = "shop"
		if got := ailing(tc.report); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
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
