package runs_test

import (
	"testing"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/runner/report"
)

// What was done to a resource under the name that it had before is not forgotten with the name.
func TestAnActionThatWasInterruptedStaysSoUnderAnotherName(t *testing.T) {
	begun := func(name string) report.Event {
		return report.Event{Kind: report.ActionStarted, Resource: name, Action: "create"}
	}
	ended := func(name string) report.Event {
		return report.Event{Kind: report.ActionFinished, Resource: name, Action: "create"}
	}
	well := func(name string) []report.Event {
		return []report.Event{{Kind: report.ResourceStarted, Resource: name}, {Kind: report.ResourceFinished, Resource: name}}
	}
	for name, tc := range map[string]struct {
		before, after []report.Event // the move of a to b, and then to c
		want          bool
	}{
		"it did not end":                       {[]report.Event{begun("a")}, nil, true},
		"it ended":                             {[]report.Event{begun("a"), ended("a")}, nil, false},
		"it was found well under its new name": {[]report.Event{begun("a")}, well("c"), false},
		"it was mended under its new name":     {[]report.Event{begun("a")}, []report.Event{begun("c"), ended("c")}, false},
		"another one has the old name":         {[]report.Event{begun("a")}, append(well("a"), begun("a"), ended("a")), true},
		"another one was done something to":    {[]report.Event{begun("a"), ended("a")}, []report.Event{begun("a")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			first := s.begin("first")
			s.record(first, append([]report.Event{{Kind: report.RunStarted}}, tc.before...)...)
			first.End()
			move(t, s.log, "a", "b")
			move(t, s.log, "b", "c")
			next := s.begin("next")
			s.record(next, tc.after...)
			next.End()
			past, err := runs.Memory{Log: s.log}.Past(t.Context(), "c", false)
			if err != nil || past.Interrupted != tc.want {
				t.Errorf("it is interrupted: %v, %v", past.Interrupted, err)
			}
		})
	}
}

// move records that a resource has another name.
func move(t *testing.T, log deploylog.Log, from, to string) {
	t.Helper()
	e := deploylog.Event{Deployment: "moving", Target: deploylog.Target("resource/" + to), Name: runs.EventResourceMoved, Attempt: 1, Data: []byte(`{"from":"` + from + `"}`)}
	if _, err := log.Append(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}
