package docker

import (
	"context"
	"errors"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/engine"
)

// Containers lists the containers, running or not, that carry all the labels,
// except those that have ended and are being removed.
func (e *Engine) Containers(ctx context.Context, labels map[string]string) ([]engine.Container, error) {
	leaving := e.removals.now() // before the list, so that no removal ends in between
	listed, err := e.client.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: having(labels)})
	if err != nil {
		return nil, e.wrap("list containers", err)
	}
	containers := make([]engine.Container, 0, len(listed.Items))
	for _, item := range listed.Items {
		if leaving[item.ID] || item.State == container.StateRemoving {
			continue
		}
		containers = append(containers, engine.Container{
			ID:      item.ID,
			Labels:  item.Labels,
			Started: item.State != container.StateCreated,
			Running: alive(item.State),
			Created: time.Unix(item.Created, 0).UTC(),
		})
	}
	return containers, nil
}

// having selects the containers that carry all the labels.
func having(labels map[string]string) client.Filters {
	filters := client.Filters{}
	for key, value := range labels {
		if value != "" {
			key += "=" + value
		}
		filters.Add("label", key)
	}
	return filters
}

// alive reports whether processes of a container in this state exist.
func alive(state container.ContainerState) bool {
	switch state {
	case container.StateRunning, container.StatePaused, container.StateRestarting:
		return true
	default:
		return false
	}
}

// Wait blocks until the container has ended, through as many connections as that
// takes once the engine has answered. One that was created and never started counts as
// ended with code 0.
func (e *Engine) Wait(ctx context.Context, id string) (engine.Exit, error) {
	_, err := e.client.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return engine.Exit{}, e.noContainer("wait for container", id, err)
	}
	state, err := e.awaitEnd(ctx, id)
	if err != nil {
		return engine.Exit{}, e.noContainer("wait for container", id, err)
	}
	return engine.Exit{Code: state.ExitCode, OOMKilled: state.OOMKilled, Ended: endOf(state)}, nil
}

// Remove kills the container if it runs, and removes it with its anonymous
// volumes. It returns when the container is removed, also if another removal got
// there first.
func (e *Engine) Remove(ctx context.Context, id string) error {
	_, err := e.client.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	switch {
	case err == nil, errdefs.IsNotFound(err):
		return nil
	case !errdefs.IsConflict(err):
		return e.wrap("remove container "+id, err)
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	end := <-e.await(waiting, id, container.WaitConditionRemoved)
	if end.err != nil && !errdefs.IsNotFound(end.err) {
		return e.wrap("remove container "+id, errors.Join(err, end.err))
	}
	return nil
}

// end is the result of a wait.
type end struct {
	code int
	err  error
}

// await registers a wait with the engine and returns once it is registered.
// The channel gets exactly one value, at the latest when ctx is done.
func (e *Engine) await(ctx context.Context, id string, condition container.WaitCondition) <-chan end {
	waiting := e.client.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: condition})
	ended := make(chan end, 1)
	go func() {
		select {
		case err := <-waiting.Error:
			ended <- end{err: err}
		case response := <-waiting.Result:
			if response.Error != nil && response.Error.Message != "" {
				ended <- end{err: errors.New(response.Error.Message)}
				return
			}
			ended <- end{code: int(response.StatusCode)}
		}
	}()
	return ended
}
