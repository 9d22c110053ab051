package cli_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres/pgtest"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/protected"
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

// A log goes to a database and back, with what came since, and is the same log; what is not
// possible is said, without the password.
func TestALogIsCopiedToADatabaseAndBack(t *testing.T) {
	t.Parallel()
	server := startPostgres(t)
	dir := t.TempDir()
	log, err := sqlite.Open(t.Context(), filepath.Join(dir, "a.db"), sqlite.Options{})
	require.NoError(t, err)
	defer log.Close()
	// Documents are where commands have them, wherever the log is.
	documents := filepath.Join(dir, ".deployster", "protected")
	text, ref := keepNamed(t, filepath.Join(dir, "objects"), documents)
	add := func(target deploylog.Target, name, data string) {
		require.NoError(t, must.Fail(log.Append(t.Context(), deploylog.Event{Deployment: "d", Target: target, Name: name, Data: []byte(data)})))
	}
	add("resource/a", "resource-kept", `{"kept": {"protected": {"name": "`+ref.Name+`", "sha256": "`+ref.Hash+`"}}}`)
	grow := func(target deploylog.Target) { add(target, "host-started", `{"a": "ü", "text": "`+text+`"}`) }
	run := func(args ...string) (out string, code int) {
		c := exec.Command(binary, append([]string{"log", "copy"}, args...)...)
		c.Dir, c.Env = dir, append(os.Environ(), "NO_COLOR=1")
		text, _ := c.CombinedOutput()
		return string(text), c.ProcessState.ExitCode()
	}
	there := server.URL("copied")
	grow("host/a")
	require.NoError(t, errors.Join(os.Mkdir(filepath.Join(dir, "link"), 0o700), os.Symlink("../a.db", filepath.Join(dir, "link", "a.db"))))
	if out, code := run("link/a.db", there); code != 0 || !strings.HasPrefix(out, "copied 2 events with 1 text and 1 protected document; both logs have the head 2:") {
		t.Fatalf("exit %d, %s", code, out)
	}
	grow("host/c")
	out, code := run("a.db", there, "--output", "json")
	var said struct {
		Copied, Events int
		Anchor         string
	}
	err = json.Unmarshal([]byte(out), &said)
	require.True(t, err == nil && code == 0 && said.Copied == 1 && said.Events == 3, "exit %d, %s, %v", code, out, err)
	require.NoError(t, os.RemoveAll(documents))
	if out, code := run("a.db", there); code != 1 || !strings.Contains(out, "both logs have the head "+said.Anchor) || !strings.Contains(out, "1 protected document to which the log refers") {
		t.Errorf("without a document: exit %d, %s", code, out)
	}
	if out, code := run(there, "copy/b.db"); code != 0 || out != "copied 3 events with 1 text and 1 protected document; both logs have the head "+said.Anchor+"\n" {
		t.Errorf("exit %d, %s", code, out)
	}
	hasNamed(t, filepath.Join(dir, "copy", "objects"), documents, text, ref)
	out, code = run("copy/b.db", "c.db")
	assert.True(t, code == 0 && strings.Contains(out, said.Anchor), "exit %d, %s", code, out)
	grow("host/d")
	copiesNothing(t, server, there, run)
	assert.Error(t, must.Fail(os.Stat(filepath.Join(dir, "d.db"))), "a log was made of one that is not there")
}

// keepNamed keeps what the events of a log name: a text and a document.
func keepNamed(t *testing.T, texts, documents string) (text string, ref protected.Ref) {
	text, err := objects.In(texts, nil).Keep([]byte("of a revision"))
	if err == nil {
		ref, err = protected.New(documents).Put("a secret")
	}
	require.NoError(t, err)
	return text, ref
}

// hasNamed checks that what keepNamed kept is there.
func hasNamed(t *testing.T, texts, documents, text string, ref protected.Ref) {
	var secret string
	err := protected.New(documents).Get(ref, &secret)
	assert.True(t, err == nil && secret == "a secret", "%q, %v", secret, err)
	content, err := objects.In(texts, nil).Load(text)
	assert.True(t, err == nil && string(content) == "of a revision", "the text is %q, %v", content, err)
}

// copiesNothing tries what is not possible: it is said, and no password is.
func copiesNothing(t *testing.T, server *pgtest.Server, there string, run func(args ...string) (out string, code int)) {
	t.Helper()
	for name, c := range map[string]struct {
		args []string
		says string
		code int
	}{
		"no such file":        {[]string{"none.db", there}, "there is no deployment log at none.db", 1},
		"no such schema":      {[]string{server.URL("none"), "d.db"}, "there is no deployment log", 1},
		"itself":              {[]string{"a.db", "a.db"}, "both are the same log", 1},
		"more is there":       {[]string{"copy/b.db", "a.db"}, "there are all of its 3 events, and 1 more", 1},
		"another protocol":    {[]string{"a.db", "mysql://u:geheim@host/db"}, "mysql://…: a log is a file, or a database whose URL begins with postgres://", 3},
		"almost a URL":        {[]string{"a.db", "postgres:/u:geheim@host/db"}, "postgres://USER@HOST:PORT/DATABASE", 3},
		"almost one to copy":  {[]string{"host=x password=geheim", "d.db"}, "postgres://USER@HOST:PORT/DATABASE", 3},
		"no server":           {[]string{"a.db", "postgres://u:geheim@/db?host=/nowhere"}, "is the server running there?", 1},
		"one argument":        {[]string{"a.db"}, "accepts 2 arg(s), received 1", 3},
		"a server is in use":  {[]string{"a.db", "copy/b.db", "--server", "https://deploy.example.com"}, "not through server", 3},
		"what is no database": {[]string{"a.db", "postgres://%zz"}, "postgres://USER@HOST:PORT/DATABASE", 1},
	} {
		out, code := run(c.args...)
		if code != c.code || !strings.Contains(out, c.says) || strings.Contains(out, "geheim") {
			t.Errorf("%s: exit %d, %s", name, code, out)
		}
	}
}

// postgresServer is the one of all tests, which the first of them starts.
var postgresServer struct {
	once sync.Once
	*pgtest.Server
	err error
}

// startPostgres is a server; each test has schemas of its own.
func startPostgres(t *testing.T) *pgtest.Server {
	p := &postgresServer
	p.once.Do(func() {
		if p.Server, p.err = pgtest.New(); p.err == nil {
			p.err = p.Start()
		}
	})
	require.NoError(t, p.err)
	return p.Server
}

func removePostgres() error {
	if postgresServer.Server == nil {
		return nil
	}
	return postgresServer.Remove()
}
