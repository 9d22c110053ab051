package build_test

import (
	"encoding/json"
	"testing"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
)

// TestGroupsThatWereNotSubmittedWhole tells of groups whose submitter died before all of their
// events were there.
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
