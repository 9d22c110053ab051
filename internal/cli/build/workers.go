package build

import (
	"os"

	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/control/workers"
)

// workersOf are the hosts of the inventory, or this machine, with so many slots, where
// nobody names one and there is none. host is the one of the pool that a worker is.
func workersOf(file string, named bool, slots int, pool *work.EnginePool) (of builds.Workers, host func(worker string) string) {
	if _, err := os.Stat(file); err == nil || named {
		return &workers.Inventory{Hosts: work.NewHosts(file), Engines: pool}, func(worker string) string { return worker }
	}
	return &workers.Machine{Slots: slots, Engines: pool}, func(string) string { return "" }
}
