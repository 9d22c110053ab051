package container

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/daemon"
	"github.com/deployster-go/deployster/resources/internal/dockertest"
)

func TestReplacementMayUseTheSamePort(t *testing.T) {
	docker := dockertest.Client(t)
	port := freePort(t)
	b := newBox(t, docker, object{
		"image": dockertest.Image(t, docker, v1.Config{}), "env": object{"V": 1},
		"ports": list{object{"container": 80, "host": port, "address": "127.0.0.1"}},
	})
	before, _ := b.Apply(t)
	after, output := b.with(object{"env": object{"V": 2}}).Apply(t)
	assert.True(t, before["id"] != after["id"] && after["ports"].(list)[0].(object)["host"] == int64(port), "was %v, is %v", before, after)
	b.alone(t)
	assert.Contains(t, output, "stopping the old container", "output")
}

func TestFailedReplacementIsUndone(t *testing.T) {
	docker := dockertest.Client(t)
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	b := newBox(t, docker, object{"image": dockertest.Image(t, docker, v1.Config{Cmd: []string{"serve"}})})
	before, _ := b.Apply(t)
	for name, tc := range map[string]struct {
		change object
		want   string
	}{
		"ends at once":       {object{"command": list{"exit", "3"}}, "ended with 3 right after it was started"},
		"no such executable": {object{"entrypoint": list{"/nowhere"}}, "starting container"},
		"port is taken":      {object{"ports": list{object{"container": 80, "host": taken.Addr().(*net.TCPAddr).Port, "address": "127.0.0.1"}}}, "starting container"},
		"unhealthy": {object{"health": object{"command": list{"/program", "exit", "9"}, "interval": "50ms", "retries": 2}},
			"is unhealthy: its health check ended with 9 these are the last words"},
		"no such network": {object{"networks": list{"bridge", "no-such-network"}, "user": "1"}, "no-such-network"},
		"no such path":    {object{"mounts": list{object{"path": "/no/such/path", "target": "/x"}}}, "/no/such/path"},
		"no such image":   {object{"image": "127.0.0.1:1/missing:1"}, "pulling image 127.0.0.1:1/missing:1"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := b.with(tc.change)
			if name == "ends at once" {
				changed = changed.patient()
			}
			changed.Fails(t, tc.want, "recreate-container")
			after := b.Valid(t)
			assert.True(t, after["id"] == before["id"], "was %v, is %v", before, after)
			b.alone(t)
		})
	}
}

func TestInterruptedReplacements(t *testing.T) {
	docker := dockertest.Client(t)
	image := dockertest.Image(t, docker, v1.Config{Cmd: []string{"serve"}})
	for name, tc := range map[string]struct {
		until int // how many steps of the replacement were made
		stale string
	}{
		"new one made":            {1, "recreate-container"},
		"old one stopped":         {2, "recreate-container"},
		"old one renamed":         {3, "create-container"},
		"new one renamed":         {4, "recreate-container"},
		"new one started":         {5, "finish-replacement"},
		"nothing but leave a new": {-1, "create-container"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, docker, object{"image": image, "env": object{"V": 1}})
			v2 := b.with(object{"env": object{"V": 2}})
			m := manage(t, v2)
			var old string
			if tc.until > 0 {
				state, _ := b.Apply(t)
				old = state["id"].(string)
			}
			id := must.Get(m.create(t.Context()))(t)
			for i, step := range []func() error{
				func() error { return must.Fail(docker.ContainerStop(t.Context(), old, client.ContainerStopOptions{})) },
				func() error { return m.rename(t.Context(), old, m.oldName()) },
				func() error { return m.rename(t.Context(), id, b.name) },
				func() error { return must.Fail(docker.ContainerStart(t.Context(), id, client.ContainerStartOptions{})) },
			} {
				if i+2 > tc.until {
					break
				}
				require.NoError(t, step())
			}
			v2.Stale(t, tc.stale)
			v2.Apply(t)
			v2.alone(t)
			assert.Contains(t, fmt.Sprint(b.inspect(t).Config.Env), "V=2", "env")
			v2.Gone().Apply(t)
		})
	}
}

func manage(t *testing.T, b box) *manager {
	t.Helper()
	var m *manager
	typ := Type()
	typ.Actions["capture"] = func(_ context.Context, r request) error {
		docker, err := daemon.Connect(daemon.Socket)
		if err == nil {
			m, err = open(managed(settling).Job(docker, r), settling)
		}
		return err
	}
	b.Type = typ
	code, _, stderr := b.Invoke(t, nil, "capture")
	require.True(t, code == 0, stderr)
	t.Cleanup(func() { _ = m.Docker.Close() })
	return m
}

func TestRemoveClearsLeftovers(t *testing.T) {
	docker := dockertest.Client(t)
	b := newBox(t, docker, object{"image": dockertest.Image(t, docker, v1.Config{})})
	require.NoError(t, must.Fail(manage(t, b).create(t.Context())))
	b.Gone().Stale(t, "remove-container")
	b.Gone().Apply(t)
}

func TestAnonymousVolumesSurviveAReplacement(t *testing.T) {
	docker := dockertest.Client(t)
	b := newBox(t, docker, object{"image": dockertest.Image(t, docker, v1.Config{Volumes: map[string]struct{}{"/data": {}}})})
	b.Apply(t)
	kept := b.inspect(t).Mounts[0].Name
	t.Cleanup(func() {
		assert.NoError(t, must.Fail(docker.VolumeRemove(context.WithoutCancel(t.Context()), kept, client.VolumeRemoveOptions{})))
	})
	_, output := b.with(object{"user": "1"}).Apply(t)
	assert.Contains(t, output, "volume "+kept+", which the old container had at /data, is kept", "output")
}

// patient is the same container, which counts as started only after far longer than
// it takes any machine to notice that it has ended.
func (b box) patient() box {
	b.Type = managed(10 * time.Minute).Type(daemon.Socket)
	return b
}

func TestLastWordsAreShown(t *testing.T) {
	docker := dockertest.Client(t)
	b := newBox(t, docker, object{"image": dockertest.Image(t, docker, v1.Config{}), "command": list{"exit", "3"}}).patient()
	b.Fails(t, "these are the last words", "create-container")
	b.Stale(t, "start-container")
	b.with(object{"restart": "always"}).Fails(t, "ended with 3", "start-container")
}

func TestThatHealthIsWaitedForIsAlwaysSaid(t *testing.T) {
	docker := dockertest.Client(t)
	b := newBox(t, docker, object{
		"image":  dockertest.Image(t, docker, v1.Config{Cmd: []string{"serve"}}),
		"health": object{"command": list{"/program", "exit", "0"}, "interval": "1ms", "timeout": "10m", "start_period": "10m"},
	})
	const waiting = "waiting until container"
	code, said, _ := b.Invoke(t, nil, "create-container")
	assert.True(t, code == 0 && strings.Count(said, waiting) == 1, "ended with %d, and said %q", code, said)
}

func TestHealth(t *testing.T) {
	docker := dockertest.Client(t)
	b := newBox(t, docker, object{
		"image":  dockertest.Image(t, docker, v1.Config{Cmd: []string{"serve"}}),
		"health": object{"command": list{"/program", "exists", "/data/well"}, "interval": "50ms", "retries": 2, "start_period": "10m"},
	})
	// Starting for a minute: the action waits, and goes on as soon as it is healthy.
	made := make(chan int, 1)
	go func() {
		code, _, _ := b.Invoke(t, nil, "create-container")
		made <- code
	}()
	awaitHealthCheck(t, docker, b.name)
	b.Stale(t, "wait-healthy")
	exec(t, docker, b.name, "/program", "create", "/data/well")
	require.Equal(t, 0, <-made, "creating ended with")
	state := b.Valid(t)
	assert.True(t, state["health"] == "healthy" && state["healthy"] == true, "state: %v", state)
}

// awaitHealthCheck waits until the first health check of a container has begun.
func awaitHealthCheck(t *testing.T, docker *client.Client, name string) {
	t.Helper()
	events := docker.Events(t.Context(), client.EventsListOptions{Since: "0", Filters: client.Filters{}.
		Add("type", "container").Add("label", daemon.LabelManaged+"=web")})
	for {
		select {
		case e := <-events.Messages:
			if strings.HasPrefix(string(e.Action), "exec_start") && strings.HasPrefix(e.Actor.Attributes["name"], name) {
				return
			}
		case err := <-events.Err:
			t.Fatal(err)
		}
	}
}

func exec(t *testing.T, docker *client.Client, name string, command ...string) {
	created := must.Get(docker.ExecCreate(t.Context(), name, client.ExecCreateOptions{Cmd: command, AttachStdout: true}))(t)
	attached := must.Get(docker.ExecAttach(t.Context(), created.ID, client.ExecAttachOptions{}))(t)
	defer attached.Close()
	require.NoError(t, must.Fail(attached.Reader.WriteTo(discard{})))
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func TestUnhealthyContainerIsRestarted(t *testing.T) {
	docker := dockertest.Client(t)
	b := newBox(t, docker, object{
		"image":  dockertest.Image(t, docker, v1.Config{Cmd: []string{"serve"}}),
		"health": object{"command": list{"/program", "exit", "1"}, "interval": "50ms", "retries": 1},
	})
	b.Fails(t, "is unhealthy", "create-container")
	b.Stale(t, "restart-container")
	b.Fails(t, "is unhealthy", "restart-container")
}

// A container that a restart policy starts again and again runs now and then.
// Whoever looks at it in between is told how it ends, and its last output.
func TestAContainerThatKeepsCrashingSaysHow(t *testing.T) {
	docker := dockertest.Client(t)
	b := newBox(t, docker, object{"image": dockertest.Image(t, docker, v1.Config{}), "command": list{"exit", "3"}, "restart": "always"})
	// Whether the end is seen at the start depends on how soon it comes.
	_, _, _ = b.Invoke(t, nil, "create-container")
	require.NoError(t, must.Fail(docker.ContainerStart(t.Context(), b.name, client.ContainerStartOptions{})))
	// The pause before a restart doubles, so it soon takes up nearly all the time.
	for b.inspect(t).RestartCount < 3 {
		continue
	}
	var answer protocol.StateOutput
	var stderr string
	for answer.Status != protocol.Stale { // it runs at this very moment
		var stdout string
		_, stdout, stderr = b.Invoke(t, nil, "state")
		var err error
		if answer, err = protocol.DecodeState([]byte(stdout)); err != nil {
			t.Fatalf("%v: %s%s", err, stdout, stderr)
		}
	}
	require.Len(t, answer.Actions, 1, "state asks for %+v", answer.Actions)
	said := answer.Actions[0].Description
	if !regexp.MustCompile(`^start container ` + b.name + `, which is restarting, after it exited with 3, and was restarted \d+ times$`).MatchString(said) {
		t.Errorf("state asks to %q", said)
	}
	assert.Contains(t, stderr, "these are the last words", "the last output is not shown")
}
