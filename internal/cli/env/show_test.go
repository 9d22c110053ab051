package env

import (
	"testing"

	"github.com/deployster-go/deployster/environment"
)

func TestAnEnvironmentIsSickBelowItsMinimum(t *testing.T) {
	rows := func(all ...environment.RevisionStatus) (r []environment.Row) {
		for _, status := range all {
			r = append(r, environment.Row{Status: status})
		}
		return r
	}
	for label, test := range map[string]struct {
		rows    []environment.Row
		healthy int
		want    bool
	}{
		"active":                                {rows(environment.Active), 3, false},
		"degraded":                              {rows(environment.Degraded), 1, true},
		"stuck":                                 {rows(environment.Undeploying, environment.Stuck), 3, true},
		"a first deployment has no minimum yet": {rows(environment.Deploying), 0, false},
		"a replacement within the minimum":      {rows(environment.Undeploying, environment.Deploying), 3, false},
		"tasks that died while a deployment waits": {rows(environment.Undeploying, environment.Deploying), 1, true},
		"the same in a rollback":                   {rows(environment.Reverting, environment.Deploying), 1, true},
	} {
		if got := sick(environment.Report{Rows: test.rows, Healthy: test.healthy, Minimum: 3}); got != test.want {
			t.Errorf("%s: %t", label, got)
		}
	}
}
