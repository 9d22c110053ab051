package container

import (
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/daemon"
	"github.com/deployster-go/deployster/resources/internal/dockertest"
)

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

// What creating a container says does not depend on whether its health was known
// before anybody looked.
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
	created, err := docker.ExecCreate(t.Context(), name, client.ExecCreateOptions{Cmd: command, AttachStdout: true})
	require.NoError(t, err)
	attached, err := docker.ExecAttach(t.Context(), created.ID, client.ExecAttachOptions{})
	require.NoError(t, err)
	defer attached.Close()
	require.NoError(t, errOf(attached.Reader.WriteTo(discard{})))
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
	require.NoError(t, errOf(docker.ContainerStart(t.Context(), b.name, client.ContainerStartOptions{})))
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
