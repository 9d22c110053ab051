package client_test

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/internal/server"
)

// reading are the commands that read the log.
var reading = []string{
	"log list", "log list --last 3 --output json", "log list --target pipeline/ --event pipeline-started", "log list --event nonsense", "log list --target pipelin/gateway",
	"log latest pipeline/gateway", "log latest pipeline/gateway --output json", "log latest pipeline/gatewy", "log latest environment/shop/prod",
	"log runs", "log runs --output json", "log export", "log verify --output json",
	"pipeline list", "pipeline list --output json", "pipeline status", "pipeline status gateway --output json", "pipeline status gateway --hosts", "pipeline status gateway --at 100",
	"pipeline status gatewy", "pipeline history gateway", "pipeline history gateway --output json", "pipeline show gateway 3", "pipeline show gateway 3 --output json", "pipeline show gateway nonsense",
	"pipeline explain gateway", "pipeline explain gateway --output json", "pipeline explain stage/gateway/nonsense", "pipeline diff gateway 2 3",
	"env list", "env list --output json", "env status shop/prod", "env status shop/prod --output json", "env status shop/prod --hosts", "env status nonsense", "env history shop/prod", "env history shop/prod --output json",
	"env revisions shop/prod", "env show shop/prod", "env show shop/prod --output json", "env explain shop/prod", "env explain shop/prod --output json", "env diff shop/prod 1 2",
	"build list", "build list --output json", "build status nonsense", "build jobs nonsense", "build explain",
	"explain pipeline/gateway", "explain environment/shop/prod", "explain nonsense/x",
}

// sending are commands that record, or are refused.
var sending = []string{
	"pipeline pause gateway --reason why", "pipeline pause gateway", "pipeline resume gateway", "pipeline pause nonsense", "pipeline pause gateway nonsense",
	"pipeline skip gateway nonsense", "pipeline retry gateway nonsense", "pipeline rollback gateway nonsense", "pipeline approve gateway nonsense 1",
	"pipeline apply -f one.yaml", "pipeline apply -f one.yaml --output json", "pipeline apply -f changed.yaml", "pipeline apply -f changed.yaml --yes", "pipeline apply -f nonsense.yaml",
	"pipeline delete one", "pipeline delete one --yes --reason old", "pipeline delete one --yes", "pipeline delete nonsense --yes", "pipeline delete gateway --yes",
	"env pause shop/prod --reason why", "env resume shop/prod", "env pause nonsense", "env resume shop/prod",
	"env confirm shop/prod", "env cordon shop/prod web-h1 web-h2 --reason disks", "env cordon shop/prod web-h1 --output json", "env cordon shop/prod wbe-h1", "env drain shop/prod web-h3", "env uncordon shop/prod web-h1 web-h2 web-h3",
	"env deploy shop/prod --revision 2", "env deploy shop/prod --revision 99", "env rollback shop/prod --reason bad", "env restart shop/prod web-h1", "env adopt shop/prod", "env adopt nonsense --from shop/prod",
	"env clean shop/prod", "env update shop/prod --base 1 --set task.vars.image=x", "env create -f nonsense.yaml", "env delete nonsense",
	"env delete shop/prod", "env delete shop/prod --yes --reason old", "env delete shop/prod --yes", "env deploy shop/prod --revision 2", "env clean shop/prod", "env clean shop/prod --yes", "build cancel nonsense", "build retry nonsense",
}

// recordedAt is when something was recorded: what is done here and there is not done in the same second.
var recordedAt = regexp.MustCompile(`\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b`)

// listed is an inventory of the hosts of the environment.
func listed(n int) string {
	text := "hosts:\n"
	for i := range n {
		text += fmt.Sprintf("  - {name: web-h%d, engine: oci, attributes: {stack: prod}}\n", i+1)
	}
	return text
}

// Whoever sends a command to a server reads what who has the log reads.
func sendAlike(t *testing.T, program, dir, path string) {
	other := filepath.Join(dir, "other", "deployments.db")
	inventory := filepath.Join(dir, "inventory.yaml")
	if err := os.WriteFile(inventory, []byte(listed(8)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"one.yaml": "{name: ask, approval: {}}", "changed.yaml": "{name: ask, approval: {}}, {name: again, approval: {}}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("pipeline: one\nstages: ["+text+"]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	url := serveOn(t, large(t, other), objects.In(filepath.Join(dir, "other", "objects"), nil), work.NewHosts(inventory))
	for _, command := range sending {
		here := run(t, program, dir, append(strings.Fields(command), "--log", path)...)
		there := run(t, program, dir, append(strings.Fields(command), "--server", url)...)
		me := run(t, program, dir, "log", "list", "--last", "1", "--output", "json", "--log", path)
		if _, by, ok := strings.Cut(me, `"by":"`); ok {
			me, _, _ = strings.Cut(by, `"`)
			here = strings.ReplaceAll(here, me, "ada") // the server says who it is
		}
		here, there = recordedAt.ReplaceAllString(here, "WHEN"), recordedAt.ReplaceAllString(there, "WHEN")
		if here != there {
			t.Errorf("%s: here\n%s\nthere\n%s", command, clip(here), clip(there))
		}
	}
	if said := run(t, program, dir, "log", "list", "--event", "pipeline-paused", "--last", "1", "--server", url); !strings.Contains(said, "by ada") {
		t.Errorf("it is not recorded as by who was authenticated: %s", said)
	}
}

// A token that is created beside the log authenticates at once at its server, until it is revoked.
func authenticate(t *testing.T, program, dir, path string, log deploylog.Log) {
	s := httptest.NewServer(server.New(server.Options{
		Log: log, Now: time.Now, NewID: newID, Logger: slog.New(slog.DiscardHandler), Identify: identity.Authenticator{Tokens: identity.NewTokens(log, time.Now)}.Identify,
	}))
	defer s.Close()
	here := func(args ...string) string { return run(t, program, dir, append(args, "--log", path)...) }
	secret, _, _ := strings.Cut(here("token", "create", "ci", "--role", "viewer", "--pipeline", "gateway"), "\n")
	if !strings.HasPrefix(secret, "dpl_") {
		t.Fatal(secret)
	}
	ask := func() string {
		t.Setenv("DEPLOYSTER_TOKEN", secret)
		return run(t, program, dir, "token", "list", "--server", s.URL)
	}
	if said := ask(); !strings.Contains(said, "ci     valid   viewer  pipeline gateway") {
		t.Error(said)
	}
	for _, wrong := range [][]string{{"ci", "--role", "admin"}, {"other"}, {"other", "--role", "root"}, {"other", "--role", "admin", "--expires", "-1d"}, {"a/b", "--role", "admin"}, {"other", "--role", "admin", "--pipeline", ""}} {
		if said := here(append([]string{"token", "create"}, wrong...)...); !strings.Contains(said, "exit status 3") {
			t.Errorf("%v: %s", wrong, said)
		}
	}
	if said := here("token", "revoke", "ci"); !strings.Contains(said, "token ci is revoked (event ") {
		t.Error(said)
	}
	if said := ask(); !strings.Contains(said, "a valid token is needed") {
		t.Error(said)
	}
}

func TestCommandsThroughAServer(t *testing.T) {
	dir := t.TempDir()
	program := build(t, dir)
	path := filepath.Join(dir, "log", "deployments.db")
	log := large(t, path)
	url := serve(t, log, objects.In(filepath.Join(dir, "log", "objects"), nil))
	t.Run("reading is reading the log", func(t *testing.T) { readAlike(t, program, dir, path, url) })
	t.Run("sending is recording", func(t *testing.T) { sendAlike(t, program, dir, path) })
	t.Run("a token authenticates", func(t *testing.T) { authenticate(t, program, dir, path, log) })
	t.Run("what is done with the log itself is refused", func(t *testing.T) { refuseWork(t, program, dir, url) })
}

// Whoever asks a server gets, byte for byte, what who has the log gets.
func readAlike(t *testing.T, program, dir, path, url string) {
	for _, command := range reading {
		here := run(t, program, dir, append(strings.Fields(command), "--log", path)...)
		there := run(t, program, dir, append(strings.Fields(command), "--server", url)...)
		there = strings.ReplaceAll(there, url, path) // both say where the log is
		if here != there {
			t.Errorf("%s: here\n%s\nthere\n%s", command, clip(here), clip(there))
		}
		if !strings.Contains(here, "exit status") && len(here) < 2 {
			t.Errorf("%s prints nothing", command)
		}
	}
}

// What does work, or needs the log itself, says so and where to do it.
func refuseWork(t *testing.T, program, dir, url string) {
	for _, command := range []string{"gc", "log verify --accept-head", "pipeline run --until-idle"} {
		said := run(t, program, dir, append(strings.Fields(command), "--server", url)...)
		if !strings.Contains(said, "exit status") || !strings.Contains(said, "without --server") {
			t.Errorf("%s: %s", command, said)
		}
		if _, err := os.Stat(filepath.Join(dir, ".deployster", "deployments.db")); err == nil {
			t.Fatalf("%s has made a log here", command)
		}
	}
	if said := run(t, program, dir, "log", "list", "--server", url, "--log", "x.db"); !strings.Contains(said, "exclude each other") {
		t.Error(said)
	}
}

func clip(text string) string { return text[:min(len(text), 1500)] }

func build(t *testing.T, dir string) (program string) {
	t.Helper()
	program = filepath.Join(dir, "deployster")
	if text, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, "../../cmd/deployster").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return program
}

// large is a log of some pipelines and environments, which is made.
func large(t *testing.T, path string) deploylog.Log {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	log, err := sqlite.Open(t.Context(), path, sqlite.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	events := querytest.Large(8, 14)
	for i := range events {
		events[i].Seq = 0
	}
	for len(events) > 0 {
		n := min(len(events), 500)
		if _, err := log.Append(t.Context(), events[:n]...); err != nil {
			t.Fatal(err)
		}
		events = events[n:]
	}
	return log
}

// run is what a command prints, and how it ends.
func run(t *testing.T, program, dir string, args ...string) string {
	t.Helper()
	c := exec.Command(program, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"), "NO_COLOR=1", "DEPLOYSTER_TOKEN="+cmp.Or(os.Getenv("DEPLOYSTER_TOKEN"), "dpl_any"))
	var out, failed bytes.Buffer
	c.Stdout, c.Stderr = &out, &failed
	err := c.Run()
	text := out.String() + failed.String()
	if err != nil {
		text += err.Error()
	}
	return text
}
