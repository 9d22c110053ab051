package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	dockernet "github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// endpoint is a container's place on the network.
type endpoint struct {
	ID       string                      `json:"id"`
	Name     string                      `json:"name"`
	Settings *dockernet.EndpointSettings `json:"settings"`
}

// endpoints lists the containers on a network, also those that do not run.
func (m *manager) endpoints(ctx context.Context, n *dockernet.Inspect) ([]endpoint, error) {
	list, err := m.Docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("network", n.ID)})
	if err != nil {
		return nil, fmt.Errorf("listing the containers on network %s: %w", n.Name, err)
	}
	on := []endpoint{}
	for _, c := range list.Items {
		got, err := m.Docker.ContainerInspect(ctx, c.ID, client.ContainerInspectOptions{})
		if err != nil {
			return nil, fmt.Errorf("inspecting container %s: %w", c.ID, err)
		}
		was := got.Container.NetworkSettings.Networks[n.Name]
		if was == nil {
			continue
		}
		keep := &dockernet.EndpointSettings{IPAMConfig: was.IPAMConfig, Links: was.Links, DriverOpts: was.DriverOpts}
		for _, alias := range was.Aliases {
			if alias != shortID(c.ID) {
				keep.Aliases = append(keep.Aliases, alias)
			}
		}
		on = append(on, endpoint{c.ID, strings.TrimPrefix(got.Container.Name, "/"), keep})
	}
	slices.SortFunc(on, func(a, b endpoint) int { return strings.Compare(a.Name, b.Name) })
	return on, nil
}

// shortID is what the engine adds to the aliases of a container by itself. Any other
// alias was asked for, also one with which the id begins: "db" is the beginning of one id
// in 256.
func shortID(id string) string { return id[:min(len(id), 12)] }

// labelEndpoints is where an empty volume says which containers belong on the
// network. A volume, because it outlives this process, comes into being in one
// step and takes up no addresses, which another network would.
const labelEndpoints = "deployster.endpoints"

func (m *manager) memory() string { return m.config.Name + "-deployster-endpoints" }

// remember notes which containers belong on the network.
func (m *manager) remember(ctx context.Context, on []endpoint) error {
	text, err := json.Marshal(on)
	if err != nil {
		return fmt.Errorf("encoding the containers on network %s: %w", m.config.Name, err)
	}
	_, err = m.Docker.VolumeCreate(ctx, client.VolumeCreateOptions{
		Name: m.memory(), Labels: m.Owner.Labels(map[string]string{labelEndpoints: string(text)}),
	})
	if err != nil {
		return fmt.Errorf("noting the containers on network %s: %w", m.config.Name, err)
	}
	return nil
}

// remembered are the recorded endpoints that are not connected again yet; nil means none.
func (m *manager) remembered(ctx context.Context) ([]endpoint, error) {
	got, err := m.Docker.VolumeInspect(ctx, m.memory(), client.VolumeInspectOptions{})
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("inspecting volume %s: %w", m.memory(), err)
	}
	if err := m.Owner.MayChange("volume", m.memory(), got.Volume.Labels); err != nil {
		return nil, err
	}
	var on []endpoint
	if err := json.Unmarshal([]byte(got.Volume.Labels[labelEndpoints]), &on); err != nil || on == nil {
		return nil, fmt.Errorf("volume %s does not say which containers belong on network %s; connect them by hand and remove it", m.memory(), m.config.Name)
	}
	return on, nil
}

func (m *manager) forget(ctx context.Context) error {
	if on, err := m.remembered(ctx); err != nil || on == nil {
		return err
	}
	if _, err := m.Docker.VolumeRemove(ctx, m.memory(), client.VolumeRemoveOptions{}); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("removing volume %s: %w", m.memory(), err)
	}
	return nil
}

// reconnect connects the containers that are remembered, to a new network when
// there is none, and forgets them.
func (m *manager) reconnect(ctx context.Context) error {
	on, err := m.remembered(ctx)
	if err != nil || on == nil {
		return err
	}
	n, err := m.Find(ctx, m.config.Name)
	if err != nil {
		return err
	}
	if n == nil {
		if err := m.create(ctx); err != nil {
			return err
		}
		if n, err = m.Find(ctx, m.config.Name); err != nil || n == nil {
			return errors.Join(err, fmt.Errorf("network %s was removed again", m.config.Name))
		}
	}
	var failed error
	for _, e := range on {
		failed = errors.Join(failed, m.connect(ctx, n, e))
	}
	if failed != nil {
		return failed
	}
	return m.forget(ctx)
}

// connect connects a container again, unless it is connected already or removed. A fixed address
// that the network does not have is dropped.
func (m *manager) connect(ctx context.Context, n *dockernet.Inspect, e endpoint) error {
	got, err := m.Docker.ContainerInspect(ctx, e.ID, client.ContainerInspectOptions{})
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("inspecting container %s: %w", e.Name, err)
	}
	if is := got.Container.NetworkSettings.Networks[n.Name]; is != nil && (is.NetworkID == "" || is.NetworkID == n.ID) {
		return nil
	}
	m.Request.Sayf("connecting container %s", e.Name)
	if c := e.Settings.IPAMConfig; c != nil && c.IPv4Address.IsValid() && !has(n, c.IPv4Address) {
		e.Settings.IPAMConfig = nil
	}
	if _, err := m.Docker.NetworkConnect(ctx, n.ID, client.NetworkConnectOptions{Container: e.ID, EndpointConfig: e.Settings}); err != nil {
		return fmt.Errorf("connecting container %s: %w", e.Name, err)
	}
	return nil
}

// has reports whether an address was asked for of a network: the engine grants
// none within a subnet that it picked itself.
func has(n *dockernet.Inspect, a netip.Addr) bool {
	return n.Labels[labelSubnet] != "" && slices.ContainsFunc(n.IPAM.Config, func(c dockernet.IPAMConfig) bool { return c.Subnet.Contains(a) })
}
