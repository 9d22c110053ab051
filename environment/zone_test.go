package environment

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
)

// inZones tells the environment which hosts are selected, and in which zones they are.
func (w *world) inZones(zones map[string]string) {
	w.Helper()
	var names []string
	for name := range zones {
		names = append(names, name)
	}
	w.propose(SetHosts{Selected: names, Attribute: func(host, name string) string {
		if name != "zone" {
			return "other"
		}
		return zones[host]
	}})
}

func TestHostsAreReplacedZoneByZone(t *testing.T) {
	w := deployed(t, 5, func(d *definition.Definition) { d.Deployment.MaxUnavailable, d.Deployment.OrderBy = most(5), "zone" })
	w.update(image("log-daemon:2"), hostNames(5))
	w.can() // before the zones are known
	w.explains("1", "h1", reason.AwaitsZone, "the hosts' attribute zone, by which they are ordered, is not known yet", record.HostsZoned)
	zones := map[string]string{"h1": "zone-10", "h2": "zone-2", "h3": "", "h4": "zone-2", "h5": "zone-10"}
	w.inZones(zones)
	if again := w.times(record.HostsZoned); again != 1 {
		t.Errorf("the zones are recorded %d times", again)
	}
	w.inZones(zones)
	if again := w.times(record.HostsZoned); again != 1 {
		t.Errorf("the same zones are recorded %d times", again)
	}
	w.can("terminate 1 h2", "terminate 1 h4")
	w.explains("1", "h1", reason.AwaitsZone, "hosts are replaced by their zone, one after the other, and those of zone-2 are not done", "the hosts of zone-2 becoming healthy")
	w.done("terminate 1 h2", "start 2 h2", "terminate 1 h4")
	w.can("start 2 h4")
	w.done("start 2 h4")
	w.can("terminate 1 h1", "terminate 1 h5")
	w.sees(1, "h3", tasks.Unhealthy, "it crashed")
	w.can("terminate 1 h3", "terminate 1 h1", "terminate 1 h5") // it has nothing to lose
	w.sees(2, "h2", tasks.Unhealthy, "it crashed")
	w.can("terminate 1 h3") // its zone is not done any more
	w.after(time.Second)
	w.done("start 2 h2", "terminate 1 h1", "start 2 h1", "terminate 1 h5", "start 2 h5", "terminate 1 h3", "start 2 h3")
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Active 5 5`)
}

// A host that max_failed tolerates does not keep the zones behind it from their turn, nor
// does a cordoned one; and a host that moves is in the zone it is in.
func TestExceptionsKeepNoZoneBack(t *testing.T) {
	w := deployed(t, 3, func(d *definition.Definition) {
		d.Deployment.MaxUnavailable, d.Deployment.OrderBy, d.Deployment.MaxFailed = most(3), "zone", most(1)
	})
	w.inZones(map[string]string{"h1": "a", "h2": "b", "h3": "c"})
	w.propose(CordonHosts{Hosts: []string{"h2"}})
	w.update(image("log-daemon:2"), hostNames(3))
	w.done("terminate 1 h1")
	for range tasks.MaxRetries {
		w.after(time.Minute)
		w.fails("start 2 h1", "no disk")
	}
	w.can("terminate 1 h3")
	w.inZones(map[string]string{"h1": "a", "h2": "b", "h3": "a"})
	w.can("terminate 1 h3")
	if p := record.Read(w.last(record.HostsZoned).Data); len(p.Zones) != 1 || !slices.Equal(p.Zones["a"], []string{"h3"}) {
		t.Errorf("recorded is %v", p.Zones)
	}
}

// The zones of ten thousand hosts do not fit into one event.
func TestTheZonesOfManyHostsAreRecordedInParts(t *testing.T) {
	w := newWorld(t)
	w.propose(Create{Definition: defined(func(d *definition.Definition) { d.Deployment.OrderBy = "zone" })})
	zones := map[string]string{}
	for i := range 4000 {
		zones[fmt.Sprintf("%s%04d", strings.Repeat("h", 90), i)] = fmt.Sprint("z", i%3)
	}
	w.propose(Deploy{Revision: 1})
	w.inZones(zones)
	if n := w.times(record.HostsZoned); n < 2 || w.state.zones.by != "zone" || w.state.byName[strings.Repeat("h", 90)+"3999"].Zone != "z0" {
		t.Errorf("in %d parts the zones by %q are known", n, w.state.zones.by)
	}
}
