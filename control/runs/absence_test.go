package runs_test

import (
	"testing"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/runner"
)

// beginDestroy begins a run that destroys: it has no revision. What it destroys
// is told by its variables.
func (s *site) beginDestroy(id, variables string) *runs.Run {
	s.Helper()
	o := runs.Options{Log: s.log, Engine: s.engine, ID: id, Target: "run/web.yaml", OrphanTimeout: s.patience, Notice: func(string) {}}
	if variables != "" {
		o.Meaning = func(salt, resource string) string { return salt + " " + resource + " " + variables }
	}
	r, err := runs.Begin(s.Context(), o)
	if err != nil {
		s.Fatal(err)
	}
	return r
}

func TestWhatTheLogKnowsToBeGone(t *testing.T) {
	type run struct {
		variables string // of a destroy; "apply" is none
		events    []runner.Event
	}
	events := func(kinds []runner.EventKind) (list []runner.Event) {
		for _, k := range kinds {
			list = append(list, runner.Event{Kind: k, Resource: "db"})
		}
		return list
	}
	apply := func(kinds ...runner.EventKind) run { return run{"apply", events(kinds)} }
	destroyOf := func(variables string, kinds ...runner.EventKind) run { return run{variables, events(kinds)} }
	destroy := func(kinds ...runner.EventKind) run { return destroyOf("stage=test", kinds...) }
	believing := run{"stage=test", []runner.Event{
		{Kind: runner.ResourceStarted, Resource: "db"},
		{Kind: runner.ResourceResolved, Resource: "db", Status: runner.Absent, Data: map[string]string{"by": "log"}},
		{Kind: runner.ResourceFinished, Resource: "db", Status: runner.Absent},
	}}
	for _, tc := range []struct {
		name string
		runs []run
		gone runner.Absence
	}{
		{"nothing of what it never heard of", nil, runner.Unproven},
		{"not what was applied", []run{apply(runner.ResourceInitialized, runner.ResourceStarted, runner.ResourceFinished)}, runner.Unproven},
		{"nor what failed", []run{apply(runner.ResourceInitialized, runner.ResourceStarted, runner.ResourceFailed)}, runner.Unproven},
		{"nor what an apply was at when it died", []run{apply(runner.ResourceInitialized, runner.ResourceStarted)}, runner.Unproven},
		{"what no apply came to was never created", []run{apply(runner.ResourceInitialized, runner.ResourceSkipped)}, runner.NeverCreated},
		{"also when it died before", []run{apply(runner.ResourceInitialized)}, runner.NeverCreated},
		{"but not when an earlier one did", []run{apply(runner.ResourceStarted, runner.ResourceFinished), apply(runner.ResourceInitialized)}, runner.Unproven},
		{"what was destroyed", []run{
			apply(runner.ResourceStarted, runner.ResourceFinished), destroy(runner.ResourceInitialized, runner.ResourceStarted, runner.ResourceDestroyed, runner.ResourceFinished),
		}, runner.Verified},
		{"not while it is not verified", []run{
			apply(runner.ResourceStarted, runner.ResourceFinished), destroy(runner.ResourceStarted, runner.ResourceDestroyed),
		}, runner.Unproven},
		{"nor what could not be destroyed", []run{
			apply(runner.ResourceStarted, runner.ResourceFinished), destroy(runner.ResourceStarted, runner.ResourceFailed),
		}, runner.Unproven},
		{"also when another destroy comes to it and dies", []run{
			destroy(runner.ResourceStarted, runner.ResourceFinished), destroy(runner.ResourceInitialized, runner.ResourceStarted),
		}, runner.Verified},
		{"not when it was applied again", []run{
			destroy(runner.ResourceStarted, runner.ResourceFinished), apply(runner.ResourceInitialized, runner.ResourceStarted),
		}, runner.Unproven},
		{"but when that did not come to it", []run{
			destroy(runner.ResourceStarted, runner.ResourceFinished), apply(runner.ResourceInitialized, runner.ResourceSkipped),
		}, runner.Verified},
		{"nothing from a destroy that only looked", []run{destroy(runner.ResourceInitialized, runner.ResourceSkipped)}, runner.Unproven},
		{"not with other variables", []run{destroyOf("stage=prod", runner.ResourceStarted, runner.ResourceFinished)}, runner.Unproven},
		{"with these ones, whatever was destroyed with others since", []run{
			destroy(runner.ResourceStarted, runner.ResourceFinished), destroyOf("stage=prod", runner.ResourceStarted, runner.ResourceFinished),
		}, runner.Verified},
		{"nothing from a destroy that does not say what it destroyed", []run{destroyOf("", runner.ResourceStarted, runner.ResourceFinished)}, runner.Unproven},
		{"nothing from a destroy that only believed the log", []run{believing}, runner.Unproven},
		{"not even what was applied before that", []run{apply(runner.ResourceStarted, runner.ResourceFinished), believing}, runner.Unproven},
		{"but what was verified before that", []run{destroy(runner.ResourceStarted, runner.ResourceFinished), believing}, runner.Verified},
		{"not as never made what a destroy came to", []run{
			apply(runner.ResourceInitialized, runner.ResourceSkipped), destroy(runner.ResourceStarted, runner.ResourceFailed),
		}, runner.Unproven},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t)
			for i, run := range tc.runs {
				id := string(rune('A' + i))
				begin := s.begin
				if run.variables != "apply" {
					begin = func(id string) *runs.Run { return s.beginDestroy(id, run.variables) }
				}
				r := begin(id)
				s.record(r, run.events...)
				r.End()
			}
			r := s.beginDestroy("Z", "stage=test")
			defer r.End()
			s.record(r, runner.Event{Kind: runner.RunStarted}, runner.Event{Kind: runner.ResourceInitialized, Resource: "db"})
			if gone, err := r.Gone(t.Context(), "db"); err != nil || gone != tc.gone {
				t.Errorf("gone: %q, %v", gone, err)
			}
		})
	}
}
