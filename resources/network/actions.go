package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/resources/internal/daemon"
	dockernet "github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

func (m *manager) wanted() client.NetworkCreateOptions {
	labels := daemon.OwnLabels(m.request.Name, m.config.Labels)
	if m.config.Subnet != "" {
		labels[labelSubnet] = m.config.Subnet
	}
	return client.NetworkCreateOptions{
		Driver: m.config.Driver, Options: m.config.Options, Internal: m.config.Internal,
		Attachable: m.config.Attachable, IPAM: m.ipam, Labels: labels,
	}
}

func (m *manager) create(ctx context.Context) error {
	if n, err := m.find(ctx); err != nil || n != nil && len(m.drift(n)) == 0 {
		return err // it is there already: an earlier attempt was interrupted
	}
	created, err := m.docker.NetworkCreate(ctx, m.config.Name, m.wanted())
	if err != nil {
		return fmt.Errorf("creating network %s: %w", m.config.Name, err)
	}
	m.request.Sayf("created network %s (%.12s)", m.config.Name, created.ID)
	return nil
}

// endpoint is a container's place on the network.
type endpoint struct {
	id       string
	name     string
	settings *dockernet.EndpointSettings
}

// endpoints lists the containers on a network, also those that do not run.
func (m *manager) endpoints(ctx context.Context, n *dockernet.Inspect) ([]endpoint, error) {
	list, err := m.docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("network", n.ID)})
	if err != nil {
		return nil, fmt.Errorf("listing the containers on network %s: %w", n.Name, err)
	}
	var on []endpoint
	for _, c := range list.Items {
		got, err := m.docker.ContainerInspect(ctx, c.ID, client.ContainerInspectOptions{})
		if err != nil {
			return nil, fmt.Errorf("looking at container %s: %w", c.ID, err)
		}
		was := got.Container.NetworkSettings.Networks[n.Name]
		if was == nil {
			continue
		}
		keep := &dockernet.EndpointSettings{IPAMConfig: was.IPAMConfig, Links: was.Links, DriverOpts: was.DriverOpts}
		for _, alias := range was.Aliases {
			if !strings.HasPrefix(c.ID, alias) { // the engine adds the short id
				keep.Aliases = append(keep.Aliases, alias)
			}
		}
		on = append(on, endpoint{c.ID, strings.TrimPrefix(got.Container.Name, "/"), keep})
	}
	slices.SortFunc(on, func(a, b endpoint) int { return strings.Compare(a.name, b.name) })
	return on, nil
}

// recreate makes the network anew. When that fails the old one is made again,
// so that the containers are not left alone.
func (m *manager) recreate(ctx context.Context) error {
	old, err := m.find(ctx)
	if err != nil {
		return err
	}
	if old == nil {
		return m.create(ctx)
	}
	on, err := m.endpoints(ctx, old)
	if err != nil {
		return err
	}
	for i, e := range on {
		m.request.Sayf("disconnecting container %s", e.name)
		if _, err := m.docker.NetworkDisconnect(ctx, old.ID, client.NetworkDisconnectOptions{Container: e.id, Force: true}); err != nil {
			return errors.Join(fmt.Errorf("disconnecting container %s: %w", e.name, err), m.connect(ctx, on[:i]))
		}
	}
	if _, err := m.docker.NetworkRemove(ctx, old.ID, client.NetworkRemoveOptions{}); err != nil {
		return errors.Join(fmt.Errorf("removing network %s: %w", old.Name, err), m.connect(ctx, on))
	}
	if _, err := m.docker.NetworkCreate(ctx, m.config.Name, m.wanted()); err != nil {
		err = fmt.Errorf("creating network %s: %w", m.config.Name, err)
		_, again := m.docker.NetworkCreate(ctx, old.Name, client.NetworkCreateOptions{
			Driver: old.Driver, Options: old.Options, Internal: old.Internal, Attachable: old.Attachable,
			IPAM: &old.IPAM, Labels: old.Labels,
		})
		if again != nil {
			return errors.Join(err, fmt.Errorf("restoring the network as it was: %w", again))
		}
		m.request.Warnf("the network was restored as it was")
		return errors.Join(err, m.connect(ctx, on))
	}
	m.request.Sayf("recreated network %s", m.config.Name)
	return m.connect(ctx, on)
}

// connect connects the containers again. A fixed address that the new network
// does not have is dropped.
func (m *manager) connect(ctx context.Context, on []endpoint) error {
	var failed error
	for _, e := range on {
		m.request.Sayf("connecting container %s", e.name)
		if c := e.settings.IPAMConfig; c != nil && c.IPv4Address.IsValid() && !m.has(c.IPv4Address) {
			e.settings.IPAMConfig = nil
		}
		if _, err := m.docker.NetworkConnect(ctx, m.config.Name, client.NetworkConnectOptions{Container: e.id, EndpointConfig: e.settings}); err != nil {
			failed = errors.Join(failed, fmt.Errorf("connecting container %s: %w", e.name, err))
		}
	}
	return failed
}

func (m *manager) has(a netip.Addr) bool {
	return m.ipam != nil && m.ipam.Config[0].Subnet.Contains(a)
}

func (m *manager) remove(ctx context.Context) error {
	n, err := m.find(ctx)
	if err != nil || n == nil {
		return err
	}
	var names []string
	for _, c := range n.Containers {
		names = append(names, c.Name)
	}
	if slices.Sort(names); len(names) > 0 {
		return fmt.Errorf("network %s is used by %s; stop or disconnect them first", n.Name, strings.Join(names, ", "))
	}
	if _, err := m.docker.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{}); err != nil {
		return fmt.Errorf("removing network %s: %w", n.Name, err)
	}
	m.request.Sayf("removed network %s", n.Name)
	return nil
}
