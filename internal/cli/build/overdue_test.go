package build_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/build"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/query/querytest"
)

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
		if out, _, _ := s.run(command, "base"); !strings.Contains(out, "expected to end at") {
			t.Errorf("at its beginning %s says %s", command, out)
		}
	}
	s.wait(time.Hour)
	for _, command := range []string{"status", "forecast"} {
		if out, beside, code := s.run(command, "base"); code != 0 || !strings.Contains(out, "expected to have ended by now") || strings.Contains(out, "expected to end at") {
			t.Errorf("an hour later %s exits with %d and says %s %s", command, code, out, beside)
		}
	}
}

// Whoever shows events of jobs of a log names what they build.
func TestTheNameOfAJobIsReadInTheLog(t *testing.T) {
	s := newSite(t, 1)
	s.begin()
	name := build.JobName(t.Context(), &app.App{Printer: &output.Printer{Now: s.clock}}, s.log)
	for job, want := range map[int]string{1: "glibc", 3: "gcc", 9: ""} {
		if got := name("base-1", job); got != want {
			t.Errorf("job %d is %q, not %q", job, got, want)
		}
	}
	s.must(s.Submit(record.Triggered{Name: "other"}, querytest.Chain("curl")...))
	assert.Equal(t, "curl", name("other-1", 1), "what came later")
}
