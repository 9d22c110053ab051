package container

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/deployster-go/deployster/resources/internal/daemon"
	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	dockernet "github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// replace makes the container, in place of the one that there may be:
//
//	create NAME-deployster-new → stop NAME → rename it NAME-deployster-old →
//	rename the new one NAME → start it → healthy → remove the old one
//
// The old one must have stopped before the new one starts, as both may publish
// one port. It is put back when the new one does not come up. Wherever this is
// interrupted, settle finds out what is what.
func (m *manager) replace(ctx context.Context) error {
	if err := m.nameNetworks(ctx); err != nil {
		return err
	}
	old, err := m.settle(ctx)
	if err != nil {
		return err
	}
	if old != nil {
		d, err := m.compare(ctx, old)
		if err != nil {
			return err
		}
		if len(d.recreate) == 0 { // an earlier attempt got this far
			return m.converge(ctx)
		}
	}
	if _, err := daemon.EnsureImage(ctx, m.Docker, m.config.Image, m.config.RegistryAuth, m.Request.Sayf); err != nil {
		return err
	}
	id, err := m.create(ctx)
	if err != nil {
		return err
	}
	if old == nil {
		if err := m.rename(ctx, id, m.config.Name); err != nil {
			return err
		}
		return m.startNew(ctx, id)
	}
	wasRunning := old.State.Running
	if err := m.putAside(ctx, old, id); err != nil {
		return errors.Join(err, m.restore(ctx, old.ID, id, wasRunning))
	}
	if err := m.startNew(ctx, id); err != nil {
		return errors.Join(err, m.restore(ctx, old.ID, id, wasRunning))
	}
	m.tellAnonymousVolumes(old)
	return m.discard(ctx, old.ID)
}

// create makes the new container and puts it on its networks, not started.
func (m *manager) create(ctx context.Context) (id string, err error) {
	wanted, err := m.wanted(m.newName())
	if err != nil {
		return "", err
	}
	created, err := m.Docker.ContainerCreate(ctx, wanted)
	if err != nil {
		return "", fmt.Errorf("creating container %s: %w", m.config.Name, err)
	}
	for _, warning := range created.Warnings {
		m.Request.Warnf("warning: %s", warning)
	}
	for _, network := range m.config.Networks[1:] {
		if err := m.join(ctx, created.ID, network); err != nil {
			return "", errors.Join(err, m.discard(ctx, created.ID))
		}
	}
	m.Request.Sayf("created container %s (%.12s) from %s", m.config.Name, created.ID, m.config.Image)
	return created.ID, nil
}

func (m *manager) join(ctx context.Context, id, network string) error {
	_, err := m.Docker.NetworkConnect(ctx, network, client.NetworkConnectOptions{Container: id, EndpointConfig: &dockernet.EndpointSettings{}})
	if err != nil {
		return fmt.Errorf("connecting container %s to network %s: %w", m.config.Name, network, err)
	}
	return nil
}

func (m *manager) putAside(ctx context.Context, old *dockercontainer.InspectResponse, id string) error {
	if old.State.Running {
		m.Request.Sayf("stopping the old container (%.12s)", old.ID)
		if _, err := m.Docker.ContainerStop(ctx, old.ID, client.ContainerStopOptions{}); err != nil {
			return fmt.Errorf("stopping the old container: %w", err)
		}
	}
	if err := m.rename(ctx, old.ID, m.oldName()); err != nil {
		return err
	}
	return m.rename(ctx, id, m.config.Name)
}

func (m *manager) rename(ctx context.Context, id, name string) error {
	if _, err := m.Docker.ContainerRename(ctx, id, client.ContainerRenameOptions{NewName: name}); err != nil {
		return fmt.Errorf("renaming container %.12s to %s: %w", id, name, err)
	}
	return nil
}

// restore puts the old container back in its place. It is done even when the
// replacement was given up because the time was over.
func (m *manager) restore(ctx context.Context, old, replacement string, start bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoring)
	defer cancel()
	if err := m.discard(ctx, replacement); err != nil {
		return err
	}
	c, err := m.Docker.ContainerInspect(ctx, old, client.ContainerInspectOptions{})
	if err != nil {
		return fmt.Errorf("restoring the old container: %w", err)
	}
	if c.Container.Name != "/"+m.config.Name {
		if err := m.rename(ctx, old, m.config.Name); err != nil {
			return fmt.Errorf("restoring the old container: %w", err)
		}
	}
	if start && !c.Container.State.Running {
		if _, err := m.Docker.ContainerStart(ctx, old, client.ContainerStartOptions{}); err != nil {
			return fmt.Errorf("starting the old container again: %w", err)
		}
	}
	m.Request.Warnf("the old container was put back")
	return nil
}

// settle brings an interrupted replacement to one side or the other, and
// returns the container that then has the name; nil means that there is none.
func (m *manager) settle(ctx context.Context) (*dockercontainer.InspectResponse, error) {
	half, err := m.Find(ctx, m.newName())
	if err != nil {
		return nil, err
	}
	if half != nil {
		if err := m.discard(ctx, half.ID); err != nil {
			return nil, err
		}
	}
	current, err := m.Find(ctx, m.config.Name)
	if err != nil {
		return nil, err
	}
	old, err := m.Find(ctx, m.oldName())
	if err != nil || old == nil {
		return current, err
	}
	if current != nil && healthy(current) { // only the last step was missing
		return current, m.discard(ctx, old.ID)
	}
	if current != nil {
		if err := m.discard(ctx, current.ID); err != nil {
			return nil, err
		}
	}
	m.Request.Sayf("putting back what an interrupted replacement had set aside")
	if err := m.rename(ctx, old.ID, m.config.Name); err != nil {
		return nil, err
	}
	return m.Find(ctx, m.config.Name)
}

// discard removes a container. The volumes that it had without a name stay:
// data is not deleted by a replacement.
func (m *manager) discard(ctx context.Context, id string) error {
	_, err := m.Docker.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("removing container %.12s: %w", id, err)
	}
	return nil
}

func (m *manager) tellAnonymousVolumes(old *dockercontainer.InspectResponse) {
	for _, p := range old.Mounts {
		if p.Type == mount.TypeVolume && len(p.Name) == 64 && strings.Trim(p.Name, "0123456789abcdef") == "" {
			m.Request.Sayf("volume %s, which the old container had at %s, is kept but no longer used", p.Name, p.Destination)
		}
	}
}

func (m *manager) finish(ctx context.Context) error {
	_, err := m.settle(ctx)
	return err
}

// remove removes the container with the volumes that have no name, and what
// an interrupted replacement may have left.
func (m *manager) remove(ctx context.Context) error {
	for _, name := range []string{m.newName(), m.oldName(), m.config.Name} {
		c, err := m.Find(ctx, name)
		if err != nil {
			return err
		}
		if c == nil {
			continue
		}
		if c.State.Running {
			if _, err := m.Docker.ContainerStop(ctx, c.ID, client.ContainerStopOptions{}); err != nil && !errdefs.IsNotFound(err) {
				return fmt.Errorf("stopping container %s: %w", name, err)
			}
		}
		_, err = m.Docker.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil && !errdefs.IsNotFound(err) {
			return fmt.Errorf("removing container %s: %w", name, err)
		}
		m.Request.Sayf("removed container %s", name)
	}
	return nil
}
