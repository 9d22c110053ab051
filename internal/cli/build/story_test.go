package build_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/internal/query/querytest"
)

// begin submits a group of four packages, each of which needs the one before it.
func (s *site) begin() {
	s.t.Helper()
	s.must(s.Submit(record.Triggered{Name: "base", File: "packages.yaml", By: "ann@ci", Touched: []string{"make"}}, querytest.Chain("glibc", "make", "gcc", "curl")...))
	s.wait(time.Minute)
}

// failed is how make fails.
func failed(worker string) build.Result {
	return build.Result{Failed: &record.Failed{Cause: "exited with 2", Exit: 2, Worker: worker, Took: 3 * time.Second, Output: []string{"make: building", "cc: no such file", ""}}}
}

// TestAGroupFailsAndIsRetried tells what people see of a group that fails, is queued again,
// and is canceled then.
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

// TestLogs tells what is printed of what jobs printed.
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

// TestWrongInput tells what is said of what makes no sense.
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
