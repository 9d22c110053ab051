package pages_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/query/querytest"
)

// twoWorkers serve everything.
func twoWorkers() (build.Workers, string, error) {
	return func(record.Place) []build.Worker {
		return []build.Worker{{Name: "w1", Slots: 1}, {Name: "w2", Slots: 1}}
	}, "", nil
}

// head is the newest event.
func (s *site) head() (seq string) {
	for e, err := range s.log.Read(s.Context(), deploylog.Filter{Last: 1}) {
		if err != nil {
			s.Fatal(err)
		}
		seq = strconv.FormatInt(e.Seq, 10)
	}
	return seq
}

// A group that has not ended has on its page when it will have, by what its jobs took before.
func TestAGroupIsShownWithItsForecast(t *testing.T) {
	s := newSite(t)
	workers, none := twoWorkers, errors.New("hosts.yaml:3: a host without a name")
	s.workers = func() (build.Workers, string, error) { return workers() }
	groups := querytest.NewGroups(t.Context(), s.log, s.now, 1)
	b := s.signedIn(identity.Viewer)
	shows := func(path, want string, is bool) {
		t.Helper()
		if code, body := b.open(path); code != http.StatusOK || strings.Contains(body, want) != is {
			t.Errorf("%s answers %d, and has %q: %v, want %v:\n%s", path, code, want, !is, is, body)
		}
	}
	do := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	do(groups.Submit(record.Triggered{Name: "packages", MaxLost: 1}, querytest.Chain("a", "b")...), dispatched(groups))
	shows("/builds/packages-1", "2 jobs left, 2 jobs at once: how long they take is not known yet", true)
	do(groups.End(1, querytest.Built(time.Minute)), dispatched(groups), groups.End(2, querytest.Built(time.Minute)))
	shows("/builds/packages-1", "at once", false)
	do(groups.Submit(record.Triggered{Name: "packages", MaxLost: 1, NoReuse: true}, querytest.Chain("a", "b")...), dispatched(groups))
	shows("/builds/packages-2", "2 jobs left, 2 jobs at once: expected to end at", true)
	shows("/builds/packages-2", s.now().Add(2*time.Minute).UTC().Format("2006-01-02T15:04"), true)
	shows("/builds/packages-2", `title="in 1m"`, true)
	shows("/builds/packages-2?at="+s.head(), "at once", false)
	do(groups.End(1, querytest.Built(time.Minute)), dispatched(groups))
	s.later(time.Hour)
	shows("/builds/packages-2", "expected to have ended by now; what runs takes longer than it did last", true)
	workers = func() (build.Workers, string, error) { return nil, "", none }
	shows("/builds/packages-2", "it is not known which workers there are: "+none.Error(), true)
	shows("/builds/packages-2", "at once", false)
}
