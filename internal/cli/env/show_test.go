package env

import (
	"testing"

	"github.com/deployster-go/deployster/environment/report"
)

func TestAnEnvironmentIsSickBelowItsMinimum(t *testing.T) {
	rows := func(all ...report.RevisionStatus) (r []report.Row) {
		for _, status := range all {
			r = append(r, report.Row{Status: status})
		}
		return r
	}
	for label, test := range map[string]struct {
		rows    []report.Row
		healthy int
		want    bool
	}{
		"active":                                {rows(report.Active), 3, false},
		"degraded":                              {rows(report.Degraded), 1, true},
		"stuck":                                 {rows(report.Undeploying, report.Stuck), 3, true},
		"a first deployment has no minimum yet": {rows(report.Deploying), 0, false},
		"a replacement within the minimum":      {rows(report.Undeploying, report.Deploying), 3, false},
		"tasks that died while a deployment waits": {rows(report.Undeploying, report.Deploying), 1, true},
		"the same in a rollback":                   {rows(report.Reverting, report.Deploying), 1, true},
	} {
		if got := sick(report.Report{Rows: test.rows, Healthy: test.healthy, Minimum: 3}); got != test.want {
			t.Errorf("%s: %t", label, got)
		}
	}
}
