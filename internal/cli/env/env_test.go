package env

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/runner"
)

func TestWhatTheBaseHasIsTakenOnlyWhereItWasLookedAt(t *testing.T) {
	defined := func(password any, includes map[string]string) *definition.Definition {
		return &definition.Definition{Task: definition.TaskSpec{Digest: "d", Vars: map[string]any{"password": password}, Includes: includes}}
	}
	none := map[string]string{}
	now := defined("new", none)
	uses := []runner.SecretUse{{Variable: "password", Path: "resources.db.config.env.PASSWORD"}}
	for name, tc := range map[string]struct {
		base  *definition.Definition
		taken bool
	}{
		"there is no base":             {nil, false},
		"it is as it was":              {defined("new", none), true},
		"its value is another":         {defined("old", none), true},
		"the manifest is another":      {defined("new", map[string]string{"other": "d"}), false},
		"a former version made it":     {defined("new", nil), false},
		"that, and the value is other": {defined("old", nil), false},
	} {
		var flags workFlags
		err := flags.refuseLogged(uses, draft{Definition: now}, tc.base)
		assert.Equal(t, tc.taken, (err == nil), "%s: taken %t, %v", name, tc.taken, err)
		flags.allowLogged = []string{"password"}
		assert.NoError(t, flags.refuseLogged(uses, draft{Definition: now}, tc.base), "%s: allowed it is refused", name)
	}
}

func TestVariablesThatNobodyLookedAtAreNew(t *testing.T) {
	defined := func(includes map[string]string, names ...string) *definition.Definition {
		d := &definition.Definition{Task: definition.TaskSpec{Vars: map[string]any{}, Includes: includes}}
		for _, name := range names {
			d.Task.Vars[name] = "x"
		}
		return d
	}
	none := map[string]string{}
	for name, tc := range map[string]struct {
		base, now *definition.Definition
		want      bool
	}{
		"the same":                     {defined(none, "a"), defined(none, "a"), false},
		"another":                      {defined(none, "a"), defined(none, "a", "b"), true},
		"of a former version":          {defined(nil, "a"), defined(none, "a"), true},
		"of a former version, without": {defined(nil, "a"), defined(none), false},
	} {
		assert.Equal(t, tc.want, addsVariables(tc.base, tc.now), "%s: new", name)
	}
}

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
		assert.Equal(t, tc.want, unhealthy(tc.report), name)
	}
}

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
		assert.Equal(t, test.want, sick(report.Report{Rows: test.rows, Healthy: test.healthy, Minimum: 3}), label)
	}
}

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
