package cli_test

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/deployster-go/deployster/internal/pullrequest/forgetest"
)

// forges are the places of git repositories that scripts begin, which want a token of whoever
// asks.
type forges struct {
	testing.TB
	mu  sync.Mutex
	all map[*testscript.TestScript]*forgetest.Forge
}

func newForges(t testing.TB) *forges {
	return &forges{TB: t, all: map[*testscript.TestScript]*forgetest.Forge{}}
}

// scripted is a test whose failures are those of a script, with which it ends.
type scripted struct {
	testing.TB
	ts *testscript.TestScript
}

func (s scripted) Fatal(args ...any)                 { s.ts.Fatalf("%v", args) }
func (s scripted) Fatalf(format string, args ...any) { s.ts.Fatalf(format, args...) }
func (s scripted) Cleanup(end func())                { s.ts.Defer(end) }
func (s scripted) TempDir() string {
	dir, err := os.MkdirTemp(s.ts.Getenv("WORK"), "forge")
	s.ts.Check(err)
	return dir
}

// command is one of
//
//	forge start KIND FILE…    a repository with the files, whose URL is $REPOSITORY
//	forge show BRANCH FILE    what a file has on a branch, as stdout
//	forge pulls               the pull requests, as stdout
//	forge requests            what was asked since, as stdout
func (f *forges) command(ts *testscript.TestScript, neg bool, args []string) {
	const usage = "usage: forge start KIND FILE…|show BRANCH FILE|pulls|requests"
	if neg || len(args) == 0 {
		ts.Fatalf(usage)
	}
	f.mu.Lock()
	forge := f.all[ts]
	f.mu.Unlock()
	switch {
	case args[0] == "start" && len(args) > 2 && forge == nil:
		files := map[string]string{}
		for _, name := range args[2:] {
			files[name] = ts.ReadFile(name)
		}
		forge = forgetest.New(scripted{f.TB, ts}, args[1], files)
		ts.Setenv("REPOSITORY", forge.Address())
		f.mu.Lock()
		f.all[ts] = forge
		f.mu.Unlock()
	case args[0] == "show" && len(args) == 3 && forge != nil:
		_, err := ts.Stdout().Write([]byte(forge.Show(args[1], args[2])))
		ts.Check(err)
	case args[0] == "pulls" && forge != nil:
		for _, p := range forge.Pulls() {
			_, err := ts.Stdout().Write([]byte(p.State + " " + p.Branch + ": " + p.Title + "\n"))
			ts.Check(err)
		}
	case args[0] == "requests" && forge != nil:
		_, err := ts.Stdout().Write([]byte(strings.Join(forge.Requests(), "\n") + "\n"))
		ts.Check(err)
	default:
		ts.Fatalf(usage)
	}
}
