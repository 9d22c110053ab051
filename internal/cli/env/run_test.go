package env

import (
	"testing"

	"github.com/deployster-go/deployster/environment/report"
)

func TestAnEnvironmentIsIdleAndNotWell(t *testing.T) {
	rows := []report.Row{{Revision: 1, Current: 1}, {Revision: 2, Desired: 3, Current: 3}}
	short := []report.Row{{Revision: 1, Current: 1}, {Revision: 2, Desired: 3, Current: 2}}
	finished := &report.Deployment{Revision: 2, Status: report.DeploymentFinished}
	for name, tc := range map[string]struct {
		report report.Report
		want   string
	}{
		"nothing was deployed":   {report.Report{Rows: rows}, ""},
		"all are healthy":        {report.Report{Rows: rows, Deployment: finished}, ""},
		"a host is not":          {report.Report{Rows: short, Deployment: finished}, "only 2 of 3 hosts healthy: shop"},
		"that is paused":         {report.Report{Rows: short, Deployment: finished, Pause: &report.PauseInfo{}}, ""},
		"that is deleted":        {report.Report{Rows: short, Deployment: finished, Deleted: true}, ""},
		"its deployment is":      {report.Report{Rows: short, Deployment: &report.Deployment{Revision: 2, Status: report.DeploymentStuck}}, "stuck: shop"},
		"that, and it is paused": {report.Report{Rows: rows, Deployment: &report.Deployment{Revision: 2, Status: report.DeploymentStuck}, Pause: &report.PauseInfo{}}, "stuck: shop"},
	} {
		tc.report.Environment = "shop"
		if got := unhealthy(tc.report); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
