package env

import (
	"strings"
	"testing"

	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/query"
)

func TestWhatIsWaitedForStaysReached(t *testing.T) {
	drain := cordonOptions{name: "shop", hosts: []string{"a"}}
	full := report.HostRow{Host: "a", Tasks: []report.TaskRow{{Revision: 1}}}
	draining := report.Report{Cordoned: []report.Cordon{{Host: "a", Drain: true}}, Hosts: []report.HostRow{full}}
	drained := report.Report{Cordoned: draining.Cordoned, Hosts: []report.HostRow{{Host: "a"}}}
	back := report.Report{Hosts: []report.HostRow{full}}
	for name, tc := range map[string]struct {
		reports []report.Report
		over    bool
		failure string
	}{
		"its tasks are there":                 {reports: []report.Report{draining}},
		"they are terminated":                 {reports: []report.Report{draining, drained}, over: true},
		"and then it is uncordoned":           {reports: []report.Report{draining, drained, back}, over: true},
		"it is uncordoned with its tasks":     {reports: []report.Report{draining, back}, over: true, failure: "not drained: somebody has uncordoned a meanwhile"},
		"and then drained by somebody again":  {reports: []report.Report{draining, back, drained}, over: true, failure: "not drained"},
		"it is drained and drained once more": {reports: []report.Report{drained, draining}, over: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &follower{name: "shop", hosts: drain.hosts, until: drain.drained}
			for _, r := range tc.reports {
				f.take(query.Progress{Report: r})
			}
			switch {
			case f.Over != tc.over:
				t.Errorf("over: %t", f.Over)
			case tc.failure == "" && f.Failure != nil, tc.failure != "" && (f.Failure == nil || !strings.Contains(f.Failure.Error(), tc.failure)):
				t.Errorf("it fails with %v", f.Failure)
			}
		})
	}
}
