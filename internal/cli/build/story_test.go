package build_test

import (
	"context"
	"encoding/json"
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

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/cli/app"
	cli "github.com/deployster-go/deployster/internal/cli/build"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/query/querytest"
)

// begin submits a group of four packages, each of which needs the one before it.
func (s *site) begin() {
	s.must(s.Submit(record.Triggered{Name: "base", File: "packages.yaml", By: "ann@ci", Touched: []string{"make"}}, querytest.Chain("glibc", "make", "gcc", "curl")...))
	s.wait(time.Minute)
}

// failed is how make fails.
func failed(worker string) build.Result {
	return build.Result{Failed: &record.Failed{Cause: "exited with 2", Exit: 2, Worker: worker, Took: 3 * time.Second, Output: []string{"make: building", "cc: no such file", ""}}}
}

func TestAGroupFailsAndIsRetried(t *testing.T) {
	s := newSite(t, 2)
	s.shows("list")
	s.begin()
	s.shows("list")
	s.shows("status")
	s.shows("forecast", "base")
	s.dispatch()
	s.wait(12 * time.Second)
	s.shows("status", "base")
	s.shows("jobs", "base")
	s.shows("explain", "base")
	s.must(s.End(1, querytest.Built(12*time.Second)))
	s.dispatch()
	s.wait(3 * time.Second)
	s.must(s.End(2, failed("w1")))
	s.dispatch()
	s.wait(3 * time.Minute)
	s.shows("status", "base")
	s.shows("jobs", "base", "--state", "jobfailed,DependencyFailed")
	s.shows("explain", "base-1")
	s.shows("explain", "base", "curl")
	s.shows("forecast", "base")
	s.shows("cancel", "base")
	s.shows("status", "--check")
	s.shows("retry", "base", "--failed-only")
	s.shows("retry", "base")
	s.shows("cancel", "base", "--reason", "wrong branch")
	s.shows("status", "base")
	s.shows("status", "base", "--at", "10")
	s.shows("list", "--state", "Canceled,failed", "--output", "json")
	s.shows("status", "--output", "json")
	s.shows("jobs", "base", "--state", "Built", "--output", "json")
	s.shows("explain", "base", "gcc", "--output", "json")
	s.told("failure.txt")
}

// TestALaterGroupHasAForecast tells of a group whose packages were built before, one of
// which is built on a worker that is lost, and of another group that waits.
func TestALaterGroupHasAForecast(t *testing.T) {
	s := newSite(t, 1)
	s.begin()
	for n, took := range []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 30 * time.Second} {
		s.dispatch()
		s.wait(took)
		s.must(s.End(n+1, querytest.Built(took)))
	}
	s.shows("status", "--check")
	s.must(s.Submit(record.Triggered{Name: "base", By: "ann@ci", NoReuse: true, MaxLost: 3}, querytest.Chain("glibc", "make", "gcc", "curl")...))
	s.must(s.Submit(record.Triggered{Name: "other", By: "bob@ci", MaxLost: 3}, querytest.Chain("x")...))
	s.wait(time.Second)
	s.dispatch()
	s.wait(20 * time.Second)
	s.must(s.End(1, build.Result{Lost: &record.Lost{Cause: "w1 does not answer", Worker: "w1"}}))
	s.shows("explain", "base", "glibc")
	s.wait(time.Minute)
	s.dispatch()
	s.shows("status")
	s.shows("forecast", "base")
	s.shows("forecast", "other")
	s.shows("explain")
	s.shows("cancel", "base")
	s.shows("status", "base")
	s.shows("cancel", "base")
	s.shows("cancel", "base", "--wait")
	s.shows("retry", "base")
	s.shows("cancel", "other", "--wait")
	s.told("forecast.txt")
}

func TestLogs(t *testing.T) {
	s := newSite(t, 1)
	s.begin()
	s.shows("logs", "base", "curl")
	s.dispatch()
	s.shows("logs", "base", "glibc")
	path := filepath.Join(s.dir, jobs.LogName("base-1", 1, 1))
	s.must(os.MkdirAll(filepath.Dir(path), 0o700))
	s.must(os.WriteFile(path, []byte("checking for cc\nbuilding\n\x1b[31mdone"), 0o600))
	s.shows("logs", "base", "1")
	s.must(s.End(1, querytest.Built(time.Minute)))
	s.shows("logs", "base-1", "glibc", "--follow")
	s.shows("logs", "base", "glibc", "--output", "json")
	s.shows("logs", "base", "glibc", "--attempt", "2")
	s.must(os.Remove(path))
	s.shows("logs", "base", "glibc")
	s.must(os.Symlink("/etc/passwd", path))
	s.shows("logs", "base", "glibc")
	s.must(s.Submit(record.Triggered{Name: "again", By: "ann@ci"}, querytest.Chain("glibc")...))
	s.dispatch()
	s.must(s.End(2, failed("w1")))
	s.dispatch()
	s.must(s.End(1, build.Result{Finished: &record.Finished{Artifact: "sha256:0a", Reused: "job/base-1/1"}}))
	s.must(os.Remove(path))
	s.must(os.WriteFile(path, []byte("building\n"), 0o600))
	s.shows("logs", "again", "glibc")
	s.shows("jobs", "again")
	s.shows("logs", "base", "gcc")
	s.told("logs.txt")
}

func TestWrongInput(t *testing.T) {
	s := newSite(t, 1)
	s.shows("status", "base")
	s.shows("cancel", "base")
	s.begin()
	for _, args := range [][]string{
		{"status", "bse"},
		{"status", "base-2"},
		{"status", "base", "--at", "99"},
		{"status", "base", "--at", "-1"},
		{"jobs", "base", "--state", "Filed"},
		{"jobs", "base", "--state", ""},
		{"list", "--state", "Done"},
		{"list", "--last", "-1"},
		{"jobs"},
		{"logs", "base"},
		{"logs", "base", "mke"},
		{"logs", "base", "5"},
		{"logs", "base", "0"},
		{"logs", "base", "make#2"},
		{"logs", "base", "make#x"},
		{"logs", "base", "1", "--attempt", "0"},
		{"logs", "base", "1", "--follow", "--attempt", "1"},
		{"logs", "base", "1", "--follow", "--output", "json"},
		{"explain", "base", "gc"},
		{"explain", "base", "gcc", "x"},
		{"forecast", "x\x1b[2J"},
		{"show", "base", "make"},
		{"cancel", ""},
		{"cancel", "base", "--reason", "two\nlines"},
		{"retry", "base"},
		{"retry"},
	} {
		s.shows(args...)
	}
	s.told("wrong.txt")
}

func TestWhoeverFollowsALogEndsItWithoutAnError(t *testing.T) {
	s := newSite(t, 1)
	s.begin()
	s.dispatch()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out, beside, code := s.within(ctx, "logs", "base", "glibc", "--follow")
	assert.True(t, code == 130 && out == "" && beside == "", "it exits with %d and says %q %q", code, out, beside)
}

// A job that takes longer than it did last has its group overdue, and no end is named then
// that has passed.
func TestAGroupThatIsOverdueSaysSo(t *testing.T) {
	s := newSite(t, 1)
	s.must(s.Submit(record.Triggered{Name: "base"}, querytest.Chain("gcc")...))
	s.dispatch()
	s.wait(time.Minute)
	s.must(s.End(1, querytest.Built(time.Minute)))
	s.must(s.Submit(record.Triggered{Name: "base", NoReuse: true}, querytest.Chain("gcc")...))
	s.dispatch()
	for _, command := range []string{"status", "forecast"} {
		out, _, _ := s.run(command, "base")
		assert.Contains(t, out, "expected to end at", "at its beginning %s", command)
	}
	s.wait(time.Hour)
	for _, command := range []string{"status", "forecast"} {
		if out, beside, code := s.run(command, "base"); code != 0 || !strings.Contains(out, "expected to have ended by now") || strings.Contains(out, "expected to end at") {
			t.Errorf("an hour later %s exits with %d and says %s %s", command, code, out, beside)
		}
	}
}

func TestTheNameOfAJobIsReadInTheLog(t *testing.T) {
	s := newSite(t, 1)
	s.begin()
	name := cli.JobName(t.Context(), &app.App{Printer: &output.Printer{Now: s.clock}}, s.log)
	for job, want := range map[int]string{1: "glibc", 3: "gcc", 9: ""} {
		assert.Equal(t, want, name("base-1", job), "job %d", job)
	}
	s.must(s.Submit(record.Triggered{Name: "other"}, querytest.Chain("curl")...))
	assert.Equal(t, "curl", name("other-1", 1), "what came later")
}

func TestJobsAreListedPageByPage(t *testing.T) {
	s := newSite(t, 1)
	s.begin()
	for command, want := range map[string]string{
		"jobs base":                                   "glibc make gcc curl",
		"jobs base --first 3":                         "glibc make gcc 1 more: --after 3",
		"jobs base --after 3 --first 3":               "curl",
		"jobs base --after 1 --first 1":               "make 2 more: --after 2",
		"jobs base --after 1 --first 1 --all":         "make 2 more: --after 2",
		"jobs base --after 9":                         "no job is like that",
		"jobs base --first 3 --output json":           `glibc make gcc "more":1`,
		"jobs base --after 2 --first 1 --output json": `make gcc "more":1`,
		"jobs base --after 9 --output json":           `"jobs":[]`,
		"jobs base --after -1":                        "--after -1: it must not be negative",
		"jobs base --first -1":                        "--first -1: it must not be negative",
	} {
		out, beside, _ := s.run(strings.Fields(command)...)
		rest := out + beside
		for _, name := range []string{"glibc", "make", "gcc", "curl"} {
			has := strings.Contains(out, name)
			assert.Equal(t, strings.Contains(want, name), has, "%s: %s is there: %t\n%s", command, name, has, out)
			want = strings.TrimSpace(strings.Replace(want, name, "", 1))
		}
		assert.Contains(t, rest, want, "%s does not say %q:\n%s", command, want, rest)
		if strings.Contains(rest, "more: --after") != strings.Contains(want, "more: --after") {
			t.Errorf("%s says of more what it should not:\n%s", command, rest)
		}
	}
}

// Whoever retries the group of a stage learns which stage that is for, and how often a job was
// lost is told in words that fit.
func TestARetryOfAStageNamesIt(t *testing.T) {
	s := newSite(t, 1)
	_, err := s.Command(t.Context(), build.Submit{
		Triggered: record.Triggered{Name: "base", MaxLost: 3, Pipeline: &record.From{Pipeline: "shop", Stage: "packages", Revision: "r7"}},
		Places:    []record.Place{{Platform: "linux/amd64"}}, Jobs: []record.JobSpec{{Package: "gcc"}},
	})
	s.must(err)
	s.dispatch()
	s.must(s.End(1, build.Result{Lost: &record.Lost{Cause: "its worker is gone"}}))
	if out, _, _ := s.run("jobs", "base"); !strings.Contains(out, "lost 1 time") || strings.Contains(out, "lost 1 times") {
		t.Errorf("a job that was lost once is\n%s", out)
	}
	s.wait(time.Minute)
	_, _, _ = s.run("cancel", "base")
	out, beside, code := s.run("retry", "base")
	want := "build group base-1, of stage packages of revision r7 of pipeline shop, is queued again: 1 job is to be built"
	assert.True(t, code == 0 && strings.Contains(out, want), "retry exits with %d and says %s %s", code, out, beside)
}

func TestGroupsThatWereNotSubmittedWhole(t *testing.T) {
	s := newSite(t, 1)
	append1 := func(id, name string, data any) {
		text, err := json.Marshal(data)
		s.must(err)
		_, err = s.log.Append(t.Context(), deploylog.Event{Deployment: id, Target: record.Group(id), Name: name, Attempt: 1, Data: text})
		s.must(err)
	}
	append1("base-1", record.GroupTriggered, record.Triggered{Name: "base", By: "ann@ci"})
	append1("apps-1", record.GroupTriggered, record.Triggered{Name: "apps", By: "ann@ci"})
	append1("apps-1", record.GroupCreated, record.Created{Jobs: 2, Places: []record.Place{{Platform: "linux/amd64"}}})
	append1("apps-1", record.JobsCreated, record.Jobs{From: 1, Jobs: []record.JobSpec{{Package: "curl"}}})
	s.shows("list")
	s.dispatch()
	for _, id := range []string{"base-1", "apps-1"} {
		s.shows("status", id)
		s.shows("jobs", id)
		s.shows("explain", id)
		s.shows("forecast", id)
		s.shows("cancel", id, "--reason", "it is not whole")
		s.shows("status", id)
		s.shows("cancel", id)
		s.shows("retry", id)
	}
	s.dispatch()
	s.shows("list")
	s.told("unqueued.txt")
}

// TestMain has times shown as those of one zone, wherever the tests run. It is set before any test
// begins: timers read it all the time.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

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
	c := cli.NewCommand(a)
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
