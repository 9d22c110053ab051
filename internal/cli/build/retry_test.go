package build_test

import (
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
)

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
	if want := "build group base-1, of stage packages of revision r7 of pipeline shop, is queued again: 1 job is to be built"; code != 0 || !strings.Contains(out, want) {
		t.Errorf("retry exits with %d and says %s %s", code, out, beside)
	}
}
