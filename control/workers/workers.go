// Package workers knows where the jobs of builds may be done: on the hosts of an inventory,
// or, where there is none, on the engine of this machine.
package workers

import (
	"context"
	"fmt"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/inventory"
)

// Local is the name of the worker that is this machine.
const Local = "local"

// Inventory is the hosts of an inventory.
type Inventory struct {
	Hosts   *work.Hosts
	Engines *work.EnginePool
}

// Workers are the hosts of the inventory as it is now.
func (i *Inventory) Workers() ([]inventory.Host, error) {
	v, err := i.Hosts.Inventory()
	if err != nil {
		return nil, err
	}
	return v.Hosts, nil
}

// Identity is what the inventory is known as.
func (i *Inventory) Identity() string { return i.Hosts.Identity() }

// Look asks the engine of a host for which platforms it builds.
func (i *Inventory) Look(ctx context.Context, name string) ([]string, error) {
	return look(ctx, i.Engines, name)
}

// Machine is this machine, of which the engine is the one that a pool has for no host.
type Machine struct {
	Slots   int // jobs that are done at once
	Engines *work.EnginePool
}

// Workers is the only one.
func (m *Machine) Workers() ([]inventory.Host, error) {
	return []inventory.Host{{Name: Local, Slots: m.Slots}}, nil
}

// Identity is that of no inventory.
func (*Machine) Identity() string { return "" }

// Look asks its engine for which platforms it builds.
func (m *Machine) Look(ctx context.Context, _ string) ([]string, error) {
	return look(ctx, m.Engines, "")
}

// look asks the engine of a host. Artifacts are mounted into the containers of jobs, and
// collected from them, as files of this machine.
func look(ctx context.Context, engines *work.EnginePool, host string) ([]string, error) {
	on, err := engines.Answering(ctx, host)
	if err != nil {
		return nil, err
	}
	if on.Info.Remote {
		return nil, fmt.Errorf("the engine %s at %s does not see the files of this machine, where artifacts are: run the dispatcher on a machine whose files it sees", on.Info.Name, on.Info.Address)
	}
	return []string{on.Info.OS + "/" + on.Info.Arch}, nil
}
