package env

import (
	"testing"

	"github.com/deployster-go/deployster/environment"
)

func TestAnEnvironmentIsIdleAndNotWell(t *testing.T) {
	rows := []environment.Row{{Revision: 1, Current: 1}, {Revision: 2, Desired: 3, Current: 3}}
	short := []environment.Row{{Revision: 1, Current: 1}, {Revision: 2, Desired: 3, Current: 2}}
	finished := &environment.Deployment{Revision: 2, Status: environment.DeploymentFinished}
	for name, tc := range map[string]struct {
		report environment.Report
		want   string
	}{
		"nothing was deployed":   {environment.Report{Rows: rows}, ""},
		"all are healthy":        {environment.Report{Rows: rows, Deployment: finished}, ""},
		"a host is not":          {environment.Report{Rows: short, Deployment: finished}, "only 2 of 3 hosts healthy: shop"},
		"that is paused":         {environment.Report{Rows: short, Deployment: finished, Pause: &environment.PauseInfo{}}, ""},
		"that is deleted":        {environment.Report{Rows: short, Deployment: finished, Deleted: true}, ""},
		"its deployment is":      {environment.Report{Rows: short, Deployment: &environment.Deployment{Revision: 2, Status: environment.DeploymentStuck}}, "stuck: shop"},
		"that, and it is paused": {environment.Report{Rows: rows, Deployment: &environment.Deployment{Revision: 2, Status: environment.DeploymentStuck}, Pause: &environment.PauseInfo{}}, "stuck: shop"},
	} {
		tc.report.Environment = "shop"
		if got := unhealthy(tc.report); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
