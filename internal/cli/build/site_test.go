package build_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/build"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/query/querytest"
)

var update = flag.Bool("update", false, "write what commands print into testdata")

// hash is what identifies all that goes into a job.
var hash = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// site is a workspace with a log in which build groups are worked off by hand.
type site struct {
	*querytest.Groups
	t   *testing.T
	log *sqlite.Log
	dir string
	now time.Time

	story strings.Builder
	kept  string // the directory of stories
}

func newSite(t *testing.T, workers int) *site {
	s := &site{t: t, dir: t.TempDir(), now: querytest.Noon}
	here, err := os.Getwd()
	s.must(err)
	s.kept = filepath.Join(here, "testdata")
	t.Chdir(s.dir)
	hosts := "hosts:\n"
	for i := range workers {
		hosts += fmt.Sprintf("  - {name: w%d, engine: oci, platforms: [linux/amd64]}\n", i+1)
	}
	s.must(os.WriteFile("inventory.yaml", []byte(hosts), 0o600))
	path := filepath.Join(s.dir, ".deployster", "deployments.db")
	log := must.Get(sqlite.Open(t.Context(), path, sqlite.Options{Now: s.clock}))(t)
	t.Cleanup(func() { assert.NoError(t, log.Close()) })
	s.log = log
	s.Groups = querytest.NewGroups(t.Context(), log, s.clock, workers)
	return s
}

func (s *site) clock() time.Time { return s.now }

func (s *site) must(err error) { require.NoError(s.t, err) }

func (s *site) wait(d time.Duration) { s.now = s.now.Add(d) }

// dispatch has free workers begin what may begin.
func (s *site) dispatch() {
	_, err := s.Dispatch()
	s.must(err)
}

// run is what a command prints and says beside it, with its exit code.
func (s *site) run(args ...string) (out, beside string, code int) {
	return s.within(s.t.Context(), args...)
}

// within is run in a context.
func (s *site) within(ctx context.Context, args ...string) (out, beside string, code int) {
	file := func(name string) *os.File {
		f, err := os.Create(filepath.Join(s.t.TempDir(), name))
		s.must(err)
		return f
	}
	stdout, stderr := file("out"), file("err")
	a := &app.App{
		In: os.Stdin, Workspace: s.dir,
		Printer: &output.Printer{Out: stdout, Err: stderr, Getenv: func(string) string { return "" }, Now: s.clock, Format: "text"},
	}
	a.Global.Parallelism = 10
	if n := len(args); n > 1 && args[n-2] == "--output" {
		a.Format, args = args[n-1], args[:n-2]
	}
	c := build.NewCommand(a)
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(args)
	c.SetOut(stdout)
	c.SetErr(stderr)
	err := c.ExecuteContext(ctx)
	text := func(f *os.File) string {
		s.must(f.Close())
		b, err := os.ReadFile(f.Name())
		s.must(err)
		return string(b)
	}
	return text(stdout), text(stderr) + exit.Text(err), exit.Code(err)
}

// shows runs a command, and keeps what it prints for the story.
func (s *site) shows(args ...string) {
	out, beside, code := s.run(args...)
	text := "$ build " + strings.Join(args, " ") + "\n" + out + beside
	if code != 0 {
		text += fmt.Sprintf("exit code %d\n", code)
	}
	text = hash.ReplaceAllString(strings.NewReplacer(app.Whoami(), "ann@ci", s.dir, "DIRECTORY").Replace(text), "HASH")
	s.story.WriteString(text + "\n")
}

// told checks that the story is the one that is kept under a name.
func (s *site) told(name string) {
	s.t.Helper()
	path := filepath.Join(s.kept, name)
	if *update {
		s.must(os.WriteFile(path, []byte(s.story.String()), 0o600))
	}
	want, err := os.ReadFile(path)
	s.must(err)
	if got := s.story.String(); got != string(want) {
		at := 0
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		at = strings.LastIndex(got[:at], "$ build")
		s.t.Errorf("it goes on otherwise than in %s (-update writes it):\n%s", path, got[max(at, 0):])
	}
}
