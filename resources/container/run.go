package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

const (
	// settling is how long a container must run before it counts as started: a
	// process that fails at once usually has failed by then.
	settling = 300 * time.Millisecond
	// polling is the pause between two probes of a container's health.
	polling = 100 * time.Millisecond
	// restoring is how long putting the old container back may take.
	restoring = time.Minute
	// lastLines is how much of a failed container's output is shown.
	lastLines = 20
)

// startNew starts a container and returns once it runs and is healthy.
func (m *manager) startNew(ctx context.Context, id string) error {
	watch, stop := context.WithCancel(ctx)
	defer stop()
	ended := m.Docker.ContainerWait(watch, id, client.ContainerWaitOptions{Condition: dockercontainer.WaitConditionNextExit})
	if _, err := m.Docker.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
		return fmt.Errorf("starting container %s: %w", m.config.Name, err)
	}
	m.Request.Sayf("started container %s", m.config.Name)
	stable := time.NewTimer(m.settling)
	defer stable.Stop()
	select {
	case <-stable.C:
	case result := <-ended.Result:
		m.showOutput(ctx, id)
		return fmt.Errorf("container %s ended with %d right after it was started", m.config.Name, result.StatusCode)
	case err := <-ended.Error:
		return fmt.Errorf("watching container %s: %w", m.config.Name, err)
	}
	return m.untilHealthy(ctx, id)
}

// untilHealthy waits for the engine's health status. It ends: the engine counts
// the failures of a health check and calls the container unhealthy.
func (m *manager) untilHealthy(ctx context.Context, id string) error {
	tick := time.NewTicker(polling)
	defer tick.Stop()
	restarts := -1
	for {
		got, err := m.Docker.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		if errdefs.IsNotFound(err) {
			return fmt.Errorf("waiting for container %s: %w", m.config.Name, errGone)
		}
		if err != nil {
			return fmt.Errorf("waiting for container %s: %w", m.config.Name, err)
		}
		c := &got.Container
		if restarts < 0 {
			restarts = c.RestartCount
			// Said also when it is healthy by now: what an apply prints is not for the
			// machine's speed to decide.
			if health(c) != "" {
				m.Request.Sayf("waiting until container %s is healthy", m.config.Name)
			}
		}
		switch {
		case healthy(c):
			return nil
		case !running(c) || c.RestartCount > restarts:
			m.showOutput(ctx, id)
			return fmt.Errorf("container %s does not stay up: it is %s, the last exit code was %d", m.config.Name, c.State.Status, c.State.ExitCode)
		case health(c) == dockercontainer.Unhealthy:
			m.showOutput(ctx, id)
			return fmt.Errorf("container %s is unhealthy: %s", m.config.Name, lastCheck(c))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting until container %s is healthy: %w", m.config.Name, ctx.Err())
		}
	}
}

func lastCheck(c *dockercontainer.InspectResponse) string {
	log := c.State.Health.Log
	if len(log) == 0 {
		return "its health check failed"
	}
	last := log[len(log)-1]
	return fmt.Sprintf("its health check ended with %d %s", last.ExitCode, strings.TrimSpace(last.Output))
}

// showOutput prints the last lines of a container that failed. The
// failure itself is reported by the caller.
func (m *manager) showOutput(ctx context.Context, id string) {
	logs, err := m.Docker.ContainerLogs(ctx, id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: fmt.Sprint(lastLines)})
	if err != nil {
		return
	}
	defer func() { _ = logs.Close() }()
	var text bytes.Buffer
	if _, err := stdcopy.StdCopy(&text, &text, io.LimitReader(logs, 64<<10)); (err == nil || errors.Is(err, io.EOF)) && text.Len() > 0 {
		m.Request.Warnf("last output of container %s:\n%s", m.config.Name, bytes.TrimRight(text.Bytes(), "\n"))
	}
}

// existing is the container, which must be there.
func (m *manager) existing(ctx context.Context) (*dockercontainer.InspectResponse, error) {
	c, err := m.Find(ctx, m.config.Name)
	if err == nil && c == nil {
		err = fmt.Errorf("container %s: %w", m.config.Name, errGone)
	}
	return c, err
}

// update changes what can be changed of an existing container.
func (m *manager) update(ctx context.Context) error {
	c, err := m.existing(ctx)
	if err != nil {
		return err
	}
	policy := dockercontainer.RestartPolicy{Name: dockercontainer.RestartPolicyMode(m.config.Restart)}
	if c.HostConfig.RestartPolicy != policy {
		if _, err := m.Docker.ContainerUpdate(ctx, c.ID, client.ContainerUpdateOptions{RestartPolicy: &policy}); err != nil {
			return fmt.Errorf("changing the restart policy of container %s: %w", m.config.Name, err)
		}
		m.Request.Sayf("container %s has restart policy %s", m.config.Name, m.config.Restart)
	}
	if err := m.nameNetworks(ctx); err != nil {
		return err
	}
	ms, err := m.membership(ctx, c)
	if err != nil {
		return err
	}
	// A network that was made anew has to be left before it is joined; all
	// others are joined first, so that the container is never without one.
	again := func(name string) bool { return slices.Contains(ms.leave, name) && slices.Contains(ms.join, name) }
	for _, network := range ms.join {
		if again(network) {
			if err := m.leave(ctx, c.ID, network); err != nil {
				return err
			}
		}
		if err := m.join(ctx, c.ID, network); err != nil {
			return err
		}
		m.Request.Sayf("container %s is on network %s", m.config.Name, network)
	}
	for _, network := range ms.leave {
		if again(network) {
			continue
		}
		if err := m.leave(ctx, c.ID, network); err != nil {
			return err
		}
		m.Request.Sayf("container %s is no longer on network %s", m.config.Name, network)
	}
	return nil
}

func (m *manager) leave(ctx context.Context, id, network string) error {
	_, err := m.Docker.NetworkDisconnect(ctx, network, client.NetworkDisconnectOptions{Container: id, Force: true})
	if err != nil {
		return fmt.Errorf("disconnecting container %s from network %s: %w", m.config.Name, network, err)
	}
	return nil
}

func (m *manager) start(ctx context.Context) error {
	c, err := m.existing(ctx)
	if err != nil {
		return err
	}
	if c.State.Paused {
		if _, err := m.Docker.ContainerUnpause(ctx, c.ID, client.ContainerUnpauseOptions{}); err != nil {
			return fmt.Errorf("unpausing container %s: %w", m.config.Name, err)
		}
		return m.untilHealthy(ctx, c.ID)
	}
	return m.startNew(ctx, c.ID)
}

func (m *manager) restart(ctx context.Context) error {
	c, err := m.existing(ctx)
	if err != nil {
		return err
	}
	if _, err := m.Docker.ContainerRestart(ctx, c.ID, client.ContainerRestartOptions{}); err != nil {
		return fmt.Errorf("restarting container %s: %w", m.config.Name, err)
	}
	return m.untilHealthy(ctx, c.ID)
}

func (m *manager) waitHealthy(ctx context.Context) error {
	c, err := m.existing(ctx)
	if err != nil {
		return err
	}
	return m.untilHealthy(ctx, c.ID)
}

// converge does what is left for a container that need not be replaced.
func (m *manager) converge(ctx context.Context) error {
	if err := m.update(ctx); err != nil {
		return err
	}
	c, err := m.existing(ctx)
	if err != nil {
		return err
	}
	if !running(c) {
		return m.start(ctx)
	}
	return m.untilHealthy(ctx, c.ID)
}
