package runs_test

import (
	"testing"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
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
		events    []report.Event
	}
	events := func(kinds []report.EventKind) (list []report.Event) {
		for _, k := range kinds {
			list = append(list, report.Event{Kind: k, Resource: "db"})
		}
		return list
	}
	apply := func(kinds ...report.EventKind) run { return run{"apply", events(kinds)} }
	destroyOf := func(variables string, kinds ...report.EventKind) run { return run{variables, events(kinds)} }
	destroy := func(kinds ...report.EventKind) run { return destroyOf("stage=test", kinds...) }
	believing := run{"stage=test", []report.Event{
		{Kind: report.ResourceStarted, Resource: "db"},
		{Kind: report.ResourceResolved, Resource: "db", Status: report.Absent, Data: map[string]string{"by": "log"}},
		{Kind: report.ResourceFinished, Resource: "db", Status: report.Absent},
	}}
	for _, tc := range []struct {
		name string
		runs []run
		gone runner.Absence
	}{
		{"nothing of what it never heard of", nil, runner.Unproven},
		{"not what was applied", []run{apply(report.ResourceInitialized, report.ResourceStarted, report.ResourceFinished)}, runner.Unproven},
		{"nor what failed", []run{apply(report.ResourceInitialized, report.ResourceStarted, report.ResourceFailed)}, runner.Unproven},
		{"nor what an apply was at when it died", []run{apply(report.ResourceInitialized, report.ResourceStarted)}, runner.Unproven},
		{"what no apply came to was never created", []run{apply(report.ResourceInitialized, report.ResourceSkipped)}, runner.NeverCreated},
		{"also when it died before", []run{apply(report.ResourceInitialized)}, runner.NeverCreated},
		{"but not when an earlier one did", []run{apply(report.ResourceStarted, report.ResourceFinished), apply(report.ResourceInitialized)}, runner.Unproven},
		{"what was destroyed", []run{
			apply(report.ResourceStarted, report.ResourceFinished), destroy(report.ResourceInitialized, report.ResourceStarted, report.ResourceDestroyed, report.ResourceFinished),
		}, runner.Verified},
		{"not while it is not verified", []run{
			apply(report.ResourceStarted, report.ResourceFinished), destroy(report.ResourceStarted, report.ResourceDestroyed),
		}, runner.Unproven},
		{"nor what could not be destroyed", []run{
			apply(report.ResourceStarted, report.ResourceFinished), destroy(report.ResourceStarted, report.ResourceFailed),
		}, runner.Unproven},
		{"also when another destroy comes to it and dies", []run{
			destroy(report.ResourceStarted, report.ResourceFinished), destroy(report.ResourceInitialized, report.ResourceStarted),
		}, runner.Verified},
		{"not when it was applied again", []run{
			destroy(report.ResourceStarted, report.ResourceFinished), apply(report.ResourceInitialized, report.ResourceStarted),
		}, runner.Unproven},
		{"but when that did not come to it", []run{
			destroy(report.ResourceStarted, report.ResourceFinished), apply(report.ResourceInitialized, report.ResourceSkipped),
		}, runner.Verified},
		{"nothing from a destroy that only looked", []run{destroy(report.ResourceInitialized, report.ResourceSkipped)}, runner.Unproven},
		{"not with other variables", []run{destroyOf("stage=prod", report.ResourceStarted, report.ResourceFinished)}, runner.Unproven},
		{"with these ones, whatever was destroyed with others since", []run{
			destroy(report.ResourceStarted, report.ResourceFinished), destroyOf("stage=prod", report.ResourceStarted, report.ResourceFinished),
		}, runner.Verified},
		{"nothing from a destroy that does not say what it destroyed", []run{destroyOf("", report.ResourceStarted, report.ResourceFinished)}, runner.Unproven},
		{"nothing from a destroy that only believed the log", []run{believing}, runner.Unproven},
		{"not even what was applied before that", []run{apply(report.ResourceStarted, report.ResourceFinished), believing}, runner.Unproven},
		{"but what was verified before that", []run{destroy(report.ResourceStarted, report.ResourceFinished), believing}, runner.Verified},
		{"not as never made what a destroy came to", []run{
			apply(report.ResourceInitialized, report.ResourceSkipped), destroy(report.ResourceStarted, report.ResourceFailed),
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
			s.record(r, report.Event{Kind: report.RunStarted}, report.Event{Kind: report.ResourceInitialized, Resource: "db"})
			if gone, err := r.Gone(t.Context(), "db"); err != nil || gone != tc.gone {
				t.Errorf("gone: %q, %v", gone, err)
			}
		})
	}
}
