// Package container is the resource type deployster/container: a long-running
// container of the Docker Engine behind the plug "docker".
//
// What is asked for is compared with what the engine says of the container, in
// every respect the configuration has; what the configuration leaves open is
// the image's. A container that differs is changed in place where the engine
// can do that (restart policy, networks, stopped, paused); otherwise it is
// replaced: the new one is made first, then the old one is stopped and kept
// aside until the new one runs and is healthy, and put back when it does not.
package container

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/daemon"
	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// Summary says in one line what the type is for.
const Summary = "a long-running container of a Docker Engine, replaced when it differs"

//go:embed schema.json
var configSchema []byte

// Identity says which container a resource manages, and the property of its
// configuration that says so; thing is "" when that is not known.
var Identity = daemon.Identify("container")

// Type returns the resource type.
func Type() protocol.Type[Config] { return managed(settling).Type(daemon.Socket) }

// managed describes containers that count as started once they have run for so long.
func managed(settling time.Duration) daemon.Managed[Config, dockercontainer.InspectResponse, *manager] {
	return daemon.Managed[Config, dockercontainer.InspectResponse, *manager]{
		Kind: daemon.Kind[dockercontainer.InspectResponse]{
			Name: "container",
			Ask: func(ctx context.Context, docker *client.Client, name string) (*dockercontainer.InspectResponse, error) {
				got, err := docker.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
				return &got.Container, err
			},
			Mark: func(c *dockercontainer.InspectResponse) (string, map[string]string) {
				return strings.TrimPrefix(c.Name, "/"), c.Config.Labels
			},
		},
		Schema: configSchema, Replace: protocol.DestroyFirst, // both may publish one port
		Named: func(c Config) string { return c.Name },
		Adopt: func(c Config) bool { return c.Adopt },
		Open:  func(j job) (*manager, error) { return open(j, settling) },
		State: (*manager).state,
		Actions: map[string]func(*manager, context.Context) error{
			"create-container":   (*manager).replace,
			"recreate-container": (*manager).replace,
			"update-container":   (*manager).update,
			"start-container":    (*manager).start,
			"restart-container":  (*manager).restart,
			"wait-healthy":       (*manager).waitHealthy,
			"finish-replacement": (*manager).finish,
			"remove-container":   (*manager).remove,
		},
	}
}

type job = daemon.Job[Config, dockercontainer.InspectResponse]

// manager does what one request asks for.
type manager struct {
	job
	config   Config // with its defaults
	settling time.Duration
}

func open(j job, settling time.Duration) (*manager, error) {
	config, err := j.Request.Config.normal(j.Request.Name)
	if err != nil {
		return nil, err
	}
	return &manager{job: j, config: config, settling: settling}, nil
}

// A container that is being replaced, and the one that will take its place,
// are known by these names.
func (m *manager) oldName() string { return m.config.Name + "-deployster-old" }
func (m *manager) newName() string { return m.config.Name + "-deployster-new" }

// leftovers reports whether a replacement was interrupted.
func (m *manager) leftovers(ctx context.Context) (bool, error) {
	list, err := m.Docker.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: client.Filters{}.Add("name", m.oldName(), m.newName()),
	})
	if err != nil {
		return false, fmt.Errorf("looking for what an interrupted replacement left: %w", err)
	}
	for _, c := range list.Items {
		for _, name := range c.Names {
			if name == "/"+m.oldName() || name == "/"+m.newName() {
				return true, nil
			}
		}
	}
	return false, nil
}

func (m *manager) state(ctx context.Context) (protocol.StateOutput, error) {
	c, err := m.Inspect(ctx, m.config.Name)
	if err != nil {
		return protocol.StateOutput{}, err
	}
	left, err := m.leftovers(ctx)
	if err != nil {
		return protocol.StateOutput{}, err
	}
	name := m.config.Name
	if m.Request.Ensure == protocol.Absent {
		remove := protocol.Do("remove-container", "remove container "+name)
		switch {
		case c != nil:
			if err := m.MayChange(c); err != nil {
				return protocol.StateOutput{}, err
			}
			return protocol.AnswerStale(describe(c), remove)
		case left:
			return protocol.AnswerStale(nil, remove)
		}
		return protocol.AnswerValid(map[string]any{"name": name})
	}
	if c == nil {
		return m.planned(protocol.AnswerStale(nil, protocol.Do("create-container", "create container "+name+" from "+m.config.Image)))
	}
	if err := m.nameNetworks(ctx); err != nil {
		return protocol.StateOutput{}, err
	}
	d, err := m.compare(ctx, c)
	if err != nil {
		return protocol.StateOutput{}, err
	}
	actions := d.actions(name, c, left)
	if crashes(c) || restartedLately(c, time.Now()) {
		m.showOutput(ctx, c.ID)
	}
	if len(actions) == 0 {
		return protocol.AnswerValid(describe(c))
	}
	if err := m.MayChange(c); err != nil {
		return protocol.StateOutput{}, err
	}
	return m.planned(protocol.AnswerStale(d.found, actions...))
}

// planned adds to an answer what is known of the container before it is made.
func (m *manager) planned(out protocol.StateOutput, err error) (protocol.StateOutput, error) {
	if err != nil {
		return out, err
	}
	return out.Planned(described{Name: m.config.Name, Image: m.config.Image},
		"id", "image_id", "addresses", "ports", "running", "health", "healthy", "restarts")
}

// actions are the steps that bring a container to its configuration.
func (d *drift) actions(name string, c *dockercontainer.InspectResponse, left bool) []protocol.Action {
	if left && !healthy(c) { // which of the two to go on with is for the replacement to find out
		d.recreate = append(d.recreate, "an earlier replacement was interrupted")
	}
	if len(d.recreate) > 0 {
		return []protocol.Action{protocol.DoDestroy("recreate-container",
			fmt.Sprintf("recreate container %s: %s", name, strings.Join(append(d.recreate, d.update...), ", ")))}
	}
	var actions []protocol.Action
	if left {
		actions = append(actions, protocol.Do("finish-replacement", "clear up after an interrupted replacement of container "+name))
	}
	if len(d.update) > 0 {
		actions = append(actions, protocol.Do("update-container",
			fmt.Sprintf("update container %s in place: %s", name, strings.Join(d.update, ", "))))
	}
	switch {
	case !running(c):
		actions = append(actions, protocol.Do("start-container", fmt.Sprintf("start container %s, which %s", name, condition(c))))
	case health(c) == dockercontainer.Unhealthy:
		actions = append(actions, protocol.Do("restart-container", "restart container "+name+", which is unhealthy"))
	case !healthy(c):
		actions = append(actions, protocol.Do("wait-healthy", "wait until container "+name+" is healthy"))
	}
	return actions
}

// condition is the state of a container that does not run, and its reason.
func condition(c *dockercontainer.InspectResponse) string {
	text := "is " + string(c.State.Status)
	switch {
	case c.State.Restarting:
		text += fmt.Sprintf(", after it exited with %d", c.State.ExitCode)
	case c.State.Status != dockercontainer.StateExited:
		return text
	case c.State.ExitCode != 0:
		text = fmt.Sprintf("exited with %d", c.State.ExitCode)
	}
	switch {
	case c.State.OOMKilled:
		text += ", out of memory"
	case c.State.Error != "":
		text += ", " + c.State.Error
	}
	switch {
	case c.RestartCount == 1:
		text += ", and was restarted once"
	case c.RestartCount > 1:
		text += fmt.Sprintf(", and was restarted %d times", c.RestartCount)
	}
	return text
}

// crashes reports whether a container ends by itself, again and again.
func crashes(c *dockercontainer.InspectResponse) bool {
	return c.State.Restarting || !c.State.Running && c.RestartCount > 0
}

// restartedLately reports whether a container was started again not long ago, after it had
// ended by itself: what it printed says why.
func restartedLately(c *dockercontainer.InspectResponse, now time.Time) bool {
	const lately = 10 * time.Minute
	at, err := time.Parse(time.RFC3339Nano, c.State.StartedAt)
	return err == nil && c.RestartCount > 0 && now.Sub(at).Abs() < lately
}

func running(c *dockercontainer.InspectResponse) bool {
	return c.State.Running && !c.State.Paused && !c.State.Restarting
}

// health is "" for a container without a health check.
func health(c *dockercontainer.InspectResponse) dockercontainer.HealthStatus {
	if c.State.Health == nil || c.State.Health.Status == dockercontainer.NoHealthcheck {
		return ""
	}
	return c.State.Health.Status
}

// healthy is true also without a health check: then running is all that is known.
func healthy(c *dockercontainer.InspectResponse) bool {
	h := health(c)
	return running(c) && (h == "" || h == dockercontainer.Healthy)
}

var errGone = errors.New("the container is gone")
