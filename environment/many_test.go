package environment

import (
	"fmt"
	"testing"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
)

// Whatever hosts a deployment is started on, it has them at once, also where their names do not
// fit into one event: they may be fewer than its query selects, for others are on the rest.
func TestADeploymentBeginsOnAllItsHostsHoweverManyTheyAre(t *testing.T) {
	many := func(from, to int) (names []string) {
		for i := from; i < to; i++ {
			names = append(names, fmt.Sprintf("a-host-with-quite-a-long-name-in-a-data-center-%06d", i))
		}
		return names
	}
	wants := func(w *world, first string, n int) {
		w.Helper()
		r := w.state.Report()
		desired := 0
		for _, h := range r.Hosts {
			if h.Desired {
				desired++
			}
		}
		if desired != n || len(r.Hosts) == 0 || r.Hosts[0].Host != first || !w.state.hostsKnown || r.Deployment.Status != report.DeploymentRunning {
			w.Fatalf("%d hosts are desired, known: %t, want %d, from %s", desired, w.state.hostsKnown, n, first)
		}
	}
	w := newWorld(t)
	w.propose(Create{Definition: defined(func(d *definition.Definition) { d.InstanceGroup.MaxLeaving = most(6000) }), By: "alice@host"})
	w.propose(Deploy{Revision: 1, Hosts: many(0, 12_000)})
	wants(w, many(0, 1)[0], 12_000)
	for name, change := range map[string]func(*definition.Definition){
		"the same query": func(d *definition.Definition) { d.Task.Digest = "2" },
		"another query":  func(d *definition.Definition) { d.Task.Digest, d.InstanceGroup.Query = "3", "attribute:stack == beta" },
	} {
		t.Run(name, func(*testing.T) {
			w.update(change, many(3000, 13_000))
			wants(w, many(3000, 3001)[0], 10_000)
			w.propose(Rollback{Revision: 1, Hosts: many(0, 12_000)})
			wants(w, many(0, 1)[0], 12_000)
		})
	}
	if n := w.state.attempts[record.HostsChanged]; n < 2 {
		t.Errorf("its hosts fit into %d events", n)
	}
}
