package container

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/containerd/errdefs"
	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// nameNetworks replaces the ids of networks by their names, which is how a
// container knows them. One that does not exist is for the engine to refuse.
func (m *manager) nameNetworks(ctx context.Context) error {
	var names []string
	for _, network := range m.config.Networks {
		if network == "default" { // the engine's other name for it
			network = "bridge"
		}
		n, err := m.Docker.NetworkInspect(ctx, network, client.NetworkInspectOptions{})
		if err != nil && !errdefs.IsNotFound(err) {
			return fmt.Errorf("inspecting network %s: %w", network, err)
		}
		if err == nil {
			network = n.Network.Name
		}
		if !slices.Contains(names, network) {
			names = append(names, network)
		}
	}
	m.config.Networks = names
	return nil
}

// membership is how a container's networks differ from what is asked for.
type membership struct {
	leave []string // names
	join  []string // names; also those that were made anew since, which are in leave too
}

func (m *manager) compareNetworks(ctx context.Context, c *dockercontainer.InspectResponse, d *drift) error {
	ms, err := m.membership(ctx, c)
	if err != nil || len(ms.leave)+len(ms.join) == 0 {
		return err
	}
	d.found["networks"] = slices.Sorted(maps.Keys(c.NetworkSettings.Networks))
	// The stack of the host, or none at all, cannot be changed for another.
	special := func(n string) bool { return n == "host" || n == "none" }
	if slices.ContainsFunc(ms.leave, special) || slices.ContainsFunc(ms.join, special) || c.HostConfig.NetworkMode.IsContainer() {
		d.recreate = append(d.recreate, "networks")
	} else {
		d.update = append(d.update, "networks")
	}
	return nil
}

func (m *manager) membership(ctx context.Context, c *dockercontainer.InspectResponse) (membership, error) {
	var ms membership
	for name := range c.NetworkSettings.Networks {
		if !slices.Contains(m.config.Networks, name) {
			ms.leave = append(ms.leave, name)
		}
	}
	for _, name := range m.config.Networks {
		on, there := c.NetworkSettings.Networks[name]
		if !there {
			ms.join = append(ms.join, name)
			continue
		}
		n, err := m.Docker.NetworkInspect(ctx, name, client.NetworkInspectOptions{})
		if err != nil && !errdefs.IsNotFound(err) {
			return ms, fmt.Errorf("inspecting network %s: %w", name, err)
		}
		if err == nil && on.NetworkID != "" && n.Network.ID != on.NetworkID { // another network of the same name
			ms.leave, ms.join = append(ms.leave, name), append(ms.join, name)
		}
	}
	slices.Sort(ms.leave)
	return ms, nil
}
