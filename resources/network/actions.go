package network

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	dockernet "github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

func (m *manager) wanted() client.NetworkCreateOptions {
	labels := m.Owner.Labels(m.config.Labels)
	if m.config.Subnet != "" {
		labels[labelSubnet] = m.config.Subnet
	}
	return client.NetworkCreateOptions{
		Driver: m.config.Driver, Options: m.config.Options, Internal: m.config.Internal,
		Attachable: m.config.Attachable, IPAM: m.ipam, Labels: labels,
	}
}

func (m *manager) create(ctx context.Context) error {
	if n, err := m.Find(ctx, m.config.Name); err != nil || n != nil && len(m.drift(n)) == 0 {
		return err // it is there already: an earlier attempt was interrupted
	}
	created, err := m.Docker.NetworkCreate(ctx, m.config.Name, m.wanted())
	if err != nil {
		return fmt.Errorf("creating network %s: %w", m.config.Name, err)
	}
	m.Request.Sayf("created network %s (%.12s)", m.config.Name, created.ID)
	return nil
}

// recreate makes the network anew. Which containers were on it is remembered
// before they leave, so that they come back whatever happens in between.
func (m *manager) recreate(ctx context.Context) error {
	if err := m.reconnect(ctx); err != nil { // an earlier attempt was interrupted
		return err
	}
	old, err := m.Find(ctx, m.config.Name)
	if err != nil {
		return err
	}
	if old == nil || len(m.drift(old)) == 0 {
		return m.create(ctx)
	}
	on, err := m.endpoints(ctx, old)
	if err != nil {
		return err
	}
	if len(on) > 0 {
		if err := m.remember(ctx, on); err != nil {
			return err
		}
	}
	return errors.Join(m.exchange(ctx, old, on), m.reconnect(ctx))
}

// exchange takes the old network away and makes the new one. When that fails
// the old one is made again, so that the containers are not left alone.
func (m *manager) exchange(ctx context.Context, old *dockernet.Inspect, on []endpoint) error {
	for _, e := range on {
		m.Request.Sayf("disconnecting container %s", e.Name)
		if _, err := m.Docker.NetworkDisconnect(ctx, old.ID, client.NetworkDisconnectOptions{Container: e.ID, Force: true}); err != nil {
			return fmt.Errorf("disconnecting container %s: %w", e.Name, err)
		}
	}
	if _, err := m.Docker.NetworkRemove(ctx, old.ID, client.NetworkRemoveOptions{}); err != nil {
		return fmt.Errorf("removing network %s: %w", old.Name, err)
	}
	if _, err := m.Docker.NetworkCreate(ctx, m.config.Name, m.wanted()); err != nil {
		err = fmt.Errorf("creating network %s: %w", m.config.Name, err)
		_, again := m.Docker.NetworkCreate(ctx, old.Name, client.NetworkCreateOptions{
			Driver: old.Driver, Options: old.Options, Internal: old.Internal, Attachable: old.Attachable,
			IPAM: &old.IPAM, Labels: old.Labels,
		})
		if again != nil {
			return errors.Join(err, fmt.Errorf("restoring the network as it was: %w", again))
		}
		m.Request.Warnf("the network was restored as it was")
		return err
	}
	m.Request.Sayf("recreated network %s", m.config.Name)
	return nil
}

func (m *manager) remove(ctx context.Context) error {
	n, err := m.Find(ctx, m.config.Name)
	if err != nil {
		return err
	}
	if n == nil {
		return m.forget(ctx)
	}
	var names []string
	for _, c := range n.Containers {
		names = append(names, c.Name)
	}
	if slices.Sort(names); len(names) > 0 {
		return fmt.Errorf("network %s is used by %s; stop or disconnect them first", n.Name, strings.Join(names, ", "))
	}
	if _, err := m.Docker.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{}); err != nil {
		return fmt.Errorf("removing network %s: %w", n.Name, err)
	}
	m.Request.Sayf("removed network %s", n.Name)
	return m.forget(ctx)
}
