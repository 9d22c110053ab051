package environment

import (
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/budget"
)

// What is unavailable is rounded down, and what is over up; but never so that nothing could
// be replaced any more.
func TestHostsAreCountedAsKubernetesDoes(t *testing.T) {
	percent := func(p float64) *budget.Budget { return &budget.Budget{Percent: p} }
	for _, test := range []struct {
		most                          *budget.Budget
		hosts, replace, surge, double int
	}{
		{most(1), 5, 4, 4, 1}, {most(7), 5, 0, 0, 7}, {percent(25), 10, 8, 8, 3}, {percent(10), 4, 3, 4, 1}, {percent(1), 1, 0, 1, 1}, {percent(10), 0, 0, 0, 1},
		{percent(100), 3, 0, 0, 3}, {percent(33.3), 1000, 667, 667, 333}, {most(0), 3, 3, 3, 1},
	} {
		c := definition.Configuration{MinHealthyPercent: 100, MaxOver: 50, MaxUnavailable: test.most, MaxSurge: test.most}
		for method, want := range map[definition.Method]int{definition.Replace: test.replace, definition.Surge: test.surge} {
			if c.Method = method; c.Minimum(test.hosts) != want {
				t.Errorf("with %s and max_unavailable %s of %d hosts %d must be healthy, not %d", method, test.most, test.hosts, c.Minimum(test.hosts), want)
			}
		}
		if got := c.MostDoubled(test.hosts); got != test.double {
			t.Errorf("with max_surge %s %d of %d hosts may have two tasks, not %d", test.most, got, test.hosts, test.double)
		}
	}
}

// A deployment that may be quicker than its revision takes the place of either setting.
func TestADeploymentSaysHowManyHostsMayBeDown(t *testing.T) {
	w := deployed(t, 10, nil)
	w.update(func(d *definition.Definition) {
		image("log-daemon:2")(d)
		d.Deployment.MaxUnavailable = &budget.Budget{Percent: 15}
	}, hostNames(10))
	w.can("terminate 1 h1")
	w.propose(Deploy{Revision: 2, Hosts: hostNames(10), Change: record.Change{MaxUnavailable: most(3)}})
	w.can("terminate 1 h1", "terminate 1 h10", "terminate 1 h2")
	percent := 95
	w.refuses(Deploy{Revision: 2, Hosts: hostNames(10), Change: record.Change{MinHealthyPercent: &percent}}, NoDisruptionAllowed)
	surge := definition.Surge
	w.propose(Deploy{Revision: 2, Hosts: hostNames(10), Change: record.Change{Method: &surge, MaxSurge: &budget.Budget{Percent: 11}}})
	w.can("start 2 h1", "start 2 h10")
	w.begin("start 2 h1")
	w.begin("start 2 h10")
	reasons := w.state.Explain(deploylog.Target("task/SomeEnvironment/Prod/2/h3"), w.now)
	if len(reasons) != 1 || reasons[0].Code != reason.MaxOver {
		t.Errorf("it explains %+v", reasons)
	}
}
