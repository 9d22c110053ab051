package cli_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
)

// A log in a database is one for whoever names it, wherever they are, with all that its events
// refer to; and no password of it is shown or written.
func TestALogInADatabase(t *testing.T) {
	t.Parallel()
	server := startPostgres(t)
	here, there := t.TempDir(), t.TempDir()
	url := strings.Replace(server.URL("prod"), "postgres@", "postgres:geheim@", 1)
	name := strings.Replace(strings.ReplaceAll(server.URL("prod"), "%2F", "/"), "postgres@", "", 1)
	if err := errors.Join(
		os.Mkdir(filepath.Join(here, "out"), 0o700),
		os.WriteFile(filepath.Join(here, "site.yaml"), []byte(`plugs: {root: {path: out}}
resources:
  index: {type: deployster/file, config: {path: index.txt, content: hello}}
outputs:
  hidden: {value: s3cret-word, writeOnly: true}
`), 0o600),
		os.WriteFile(filepath.Join(here, "env.yaml"), []byte("name: web/prod\ntype: Daemon\ntask: {manifest: site.yaml}\ninstance_group: {query: \"attribute:stack == prod\"}\ndeployment: {min_healthy_percent: 0}\n"), 0o600),
		os.WriteFile(filepath.Join(here, "inventory.yaml"), []byte("hosts:\n  - {name: a, engine: oci, attributes: {stack: prod}}\n"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	run := func(dir string, args ...string) (out string, code int) {
		c := exec.Command(binary, args...)
		c.Dir, c.Env = dir, append(os.Environ(), "NO_COLOR=1", "DEPLOYSTER_LOG="+url)
		text, _ := c.CombinedOutput()
		assert.NotContains(t, string(text), "geheim", "%q shows the password: %s", args, text)
		return string(text), c.ProcessState.ExitCode()
	}
	for _, step := range []struct {
		dir  string
		args string
		code int
		says string
	}{
		{there, "log runs", 1, "there is no deployment log at " + name},
		{there, "console -e 1+1", 0, "2"},
		{here, "plan site.yaml", 0, "1 to change"},
		{here, "apply site.yaml --confirm NO", 0, "applied: 1 changed"},
		{there, "log runs", 0, "succeeded: 1 changed"},
		{there, "output hidden", 0, "s3cret-word"},
		{there, "state show index", 0, "nothing is kept of it"},
		{there, "explain resource/nothing", 3, "the log at " + name + " knows nothing of it"},
		{there, "log verify", 0, name + " is sound: 9 events"},
		{there, "log verify --accept-head", 3, "this is done with the file of a log alone"},
		{there, "__complete log latest run/", 0, "run/site.yaml"},
		{here, "env create -f env.yaml", 0, "environment web/prod is created"},
		{there, "env show web/prod --revision 1", 0, "site.yaml sha256:"},
		{here, "drift site.yaml", 0, "No drift"},
		{here, "gc", 0, "artifacts: left, because the log is in a database"},
		{here, "destroy site.yaml --yes", 0, "destroyed: 1"},
		{here, "log runs --log none.db", 1, "there is no deployment log at none.db"},
		{here, "log runs --log mysql://u:geheim@h/db", 3, "a log is a file, or a database whose URL begins with postgres://"},
		{here, "apply site.yaml --yes --log postgres:/u:geheim@h/db", 3, "a database only where it is a URL: postgres://USER@HOST"},
		{here, "log runs --log password=geheim://x", 3, "a database only where it is a URL"},
		{here, "log runs --log postgres://u:geheim@h/db?schema=", 3, "the name of a schema"},
	} {
		if out, code := run(step.dir, strings.Fields(step.args)...); code != step.code || !strings.Contains(out, step.says) {
			t.Errorf("%s: exit %d, want %d and %q in\n%s", step.args, code, step.code, step.says, out)
		}
	}
	for _, dir := range []string{here, there} {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			if strings.Contains(string(text), "geheim") || strings.Contains(string(text), "s3cret-word") && filepath.Base(path) != "site.yaml" || e.Name() == "deployments.db" {
				t.Errorf("%s is there, or has a secret", path)
			}
			return err
		})
		assert.NoError(t, err)
	}
}

// Servers on one log need nobody to elect one of them: they share what there is, what one
// controlled that is killed the other has at once, and each of them answers.
func TestAServerTakesOverFromOneThatIsKilled(t *testing.T) {
	t.Parallel()
	database, dir := startPostgres(t), t.TempDir()
	if err := errors.Join(
		os.Mkdir(filepath.Join(dir, "out"), 0o700),
		os.WriteFile(filepath.Join(dir, "site.yaml"), []byte("plugs: {root: {path: out}}\nresources:\n  index: {type: deployster/file, config: {path: index.txt, content: hello}}\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "inventory.yaml"), []byte("hosts:\n  - {name: a, engine: oci, attributes: {stack: prod}}\n"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, dir: dir}
	on := []string{"--log", database.URL("replicas")}
	var names []string
	create := func() {
		name := fmt.Sprintf("web/%d", len(names))
		text := "name: " + name + "\ntype: Daemon\ntask: {manifest: site.yaml}\ninstance_group: {query: \"attribute:stack == prod\"}\ndeployment: {min_healthy_percent: 0, min_healthy_time: 10ms, bake: 10ms}\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "env.yaml"), []byte(text), 0o600))
		s.deployster(append([]string{"env", "create", "-f", "env.yaml"}, on...)...)
		names = append(names, name)
	}
	create()
	serve := func(socket string) *run {
		r := s.start(append([]string{"serve", "--socket", socket}, on...)...)
		r.out.until(t, "listening")
		return r
	}
	first := serve("one")
	log, err := postgres.Open(t.Context(), database.URL("replicas"), postgres.Options{Existing: true})
	require.NoError(t, err)
	defer log.Close()
	untilControlled := func(name string) {
		t.Helper()
		for held := false; !held; {
			if held, err = log.Locked("environment/" + name); err != nil {
				t.Fatal(err)
			}
		}
	}
	untilControlled(names[0])
	second := serve("two")
	second.out.until(t, "2 controllers share the environments now")
	for _, socket := range []string{"one", "two"} {
		code, body := s.ask(socket, "/v1/environments")
		assert.True(t, code == http.StatusOK && strings.Contains(body, names[0]), "server %s answers %d %s", socket, code, body)
	}
	of := map[*run]string{} // an environment that each of them controls
	for len(of) < 2 {
		create()
		for _, name := range names {
			untilControlled(name)
			unlock, err := log.TryLock("environment/" + name)
			if err == nil {
				unlock() // it changes hands
				continue
			}
			for _, one := range []*run{first, second} {
				if strings.Contains(err.Error(), fmt.Sprintf(": process %d on ", one.Process.Pid)) {
					of[one] = name
				}
			}
		}
	}
	require.NoError(t, first.Process.Kill())
	second.out.until(t, "no other controller shares the environments any more")
	untilControlled(of[first])
	s.deployster(append([]string{"env", "deploy", of[first], "--revision", "1"}, on...)...)
	for e, err := range log.Watch(t.Context(), deploylog.Filter{Target: deploylog.Target("environment/" + of[first])}) {
		require.NoError(t, err)
		if e.Name == "environment-finished-successfully" {
			break
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "out", "index.txt")); string(text) != "hello" {
		t.Errorf("there is %q, %v", text, err)
	}
	s.terminate(second)
	<-second.done
}
