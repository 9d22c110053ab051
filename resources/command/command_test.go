package command

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/daemon"
	"github.com/deployster-go/deployster/resources/internal/dockertest"
	"github.com/deployster-go/deployster/resources/internal/protocoltest"
	"github.com/deployster-go/deployster/resources/internal/typetest"
)

type object = map[string]any

func resource(t *testing.T, docker *client.Client, image string, config object) typetest.Resource {
	t.Helper()
	config = maps.Clone(config)
	config["image"] = image
	r := typetest.Resource{Type: Type(), Name: dockertest.Name("command"), Config: config, Workspace: t.TempDir()}
	t.Cleanup(func() { // whatever happens, no container stays
		left, err := docker.ContainerList(context.WithoutCancel(t.Context()), client.ContainerListOptions{
			All: true, Filters: client.Filters{}.Add("label", daemon.LabelManaged+"="+r.Name),
		})
		assert.NoError(t, err)
		for _, c := range left.Items {
			t.Errorf("container %v was left: %s", c.Names, c.Status)
			_, _ = docker.ContainerRemove(context.WithoutCancel(t.Context()), c.ID, client.ContainerRemoveOptions{Force: true})
		}
	})
	return r
}

func TestLifeOfACommand(t *testing.T) {
	docker := dockertest.Client(t)
	image := dockertest.Image(t, docker, v1.Config{})
	r := resource(t, docker, image, object{
		"check": []string{"/program", "exists", "flag"},
		"apply": []string{"/program", "create", "flag"},
	})
	stale := r.Stale(t, "run-command")
	assert.True(t, stale.StaleState["exit"] == int64(1) && stale.Actions[0].Description == "run `/program create flag`", "%+v", stale)
	r.Fails(t, "the apply command `/program create flag` ended with 1", "run-command") // the workspace is read-only

	require.NoError(t, os.WriteFile(filepath.Join(r.Workspace, "flag"), nil, 0o600))
	state := r.Valid(t)
	assert.True(t, state["exit"] == int64(0) && state["stdout"] == `{"found": "flag"}` && state["output"].(object)["found"] == "flag",
		"state: %v", state)
	r.Gone().Valid(t) // nothing says how to undo it
}

func TestRemoveCommand(t *testing.T) {
	docker := dockertest.Client(t)
	image := dockertest.Image(t, docker, v1.Config{})
	r := resource(t, docker, image, object{
		"check": []string{"/program", "exists", "flag"}, "apply": []string{"/program", "exit", "0"},
		"remove": []string{"/program", "print", "removing", "it"},
	})
	r.Gone().Valid(t)
	flag := filepath.Join(r.Workspace, "flag")
	require.NoError(t, os.WriteFile(flag, nil, 0o600))
	r.Gone().Stale(t, "run-remove")
	code, stdout, stderr := r.Gone().Invoke(t, nil, "run-remove")
	assert.True(t, code == 0 && stdout == "removing it\n", "ended with %d: %s%s", code, stdout, stderr)
}

func TestWhatTheCommandSees(t *testing.T) {
	docker := dockertest.Client(t)
	image := dockertest.Image(t, docker, v1.Config{WorkingDir: "/data", User: "12:34", Env: []string{"A=image"}})
	for name, tc := range map[string]struct {
		config object
		stdout string // WORKSPACE stands for it
	}{
		"the workspace":       {object{"check": []string{"/program", "where"}}, "WORKSPACE 12 <nil>"},
		"no workspace":        {object{"check": []string{"/program", "where"}, "mount_workspace": false}, "/data 12 <nil>"},
		"working directory":   {object{"check": []string{"/program", "where"}, "workdir": "/"}, "/ 12 <nil>"},
		"user":                {object{"check": []string{"/program", "where"}, "user": "77", "workdir": "/"}, "/ 77 <nil>"},
		"environment":         {object{"check": []string{"/program", "env", "A"}, "env": object{"A": 8080}}, "8080"},
		"secret environment":  {object{"check": []string{"/program", "env", "A"}, "secret_env": object{"A": "x"}, "env": object{"B": 1}}, "x"},
		"image's environment": {object{"check": []string{"/program", "env", "A"}}, "image"},
		"without a network":   {object{"check": []string{"/program", "print", "x"}, "network": "none"}, "x"},
	} {
		t.Run(name, func(t *testing.T) {
			r := resource(t, docker, image, tc.config)
			want := strings.Replace(tc.stdout, "WORKSPACE", r.Workspace, 1)
			if err := os.Chmod(r.Workspace, 0o755); err != nil { // the container's user must enter it
				t.Fatal(err)
			}
			got := r.Valid(t)["stdout"]
			assert.True(t, got == want, "got %q, want %q", got, want)
		})
	}
}

// As no type, no command of one sees what Deployster keeps in the workspace.
func TestTheCommandDoesNotSeeWhatDeploysterKeeps(t *testing.T) {
	docker := dockertest.Client(t)
	image := dockertest.Image(t, docker, v1.Config{})
	for name, link := range map[string]bool{"a directory": false, "a link": true} {
		t.Run(name, func(t *testing.T) {
			r := resource(t, docker, image, object{"check": []string{"/program", "exists", ".deployster/deployments.db"}})
			kept := filepath.Join(r.Workspace, ".deployster")
			if link {
				require.NoError(t, os.Symlink("kept", kept))
				kept = filepath.Join(r.Workspace, "kept")
			}
			require.NoError(t, os.Mkdir(kept, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(kept, "deployments.db"), nil, 0o600))
			stale := r.Stale(t, "run-command")
			assert.True(t, stale.StaleState["exit"] == int64(1), "it sees the log: %v", stale.StaleState)
		})
	}
}

func TestReadOnlyUse(t *testing.T) {
	docker := dockertest.Client(t)
	r := resource(t, docker, dockertest.Image(t, docker, v1.Config{}), object{"check": []string{"/program", "exit", "7"}})
	stale := r.Stale(t, "run-command")
	assert.True(t, stale.StaleState["exit"] == int64(7) && stale.StaleState["stdout"] == "these are the last words",
		"stale state: %v", stale.StaleState)
	r.Fails(t, `no "apply" command`, "run-command")
}

func TestLargeOutputIsCut(t *testing.T) {
	docker := dockertest.Client(t)
	r := resource(t, docker, dockertest.Image(t, docker, v1.Config{}), object{"check": []string{"/program", "flood"}})
	state := r.Valid(t)
	assert.True(t, len(state["stdout"].(string)) == maxOutput && state["truncated"] == true,
		"%d bytes, truncated %v", len(state["stdout"].(string)), state["truncated"])
}

func TestCommandsThatCanNotRun(t *testing.T) {
	docker := dockertest.Client(t)
	image := dockertest.Image(t, docker, v1.Config{})
	resource(t, docker, image, object{"check": []string{"/no/such/program"}}).Fails(t, "starting the check command", "state")
	resource(t, docker, image, object{"check": "true"}).Fails(t, "/bin/sh", "state") // there is no shell in this image
	resource(t, docker, image, object{}).Fails(t, `"image" and "check" are required`, "state")
	resource(t, docker, image, object{"check": []string{}}).Fails(t, "a command must be text for the shell or a list", "state")
	resource(t, docker, image, object{"check": 1}).Fails(t, "a command must be text for the shell or a list", "state")
	resource(t, docker, "127.0.0.1:1/missing:1", object{"check": []string{"x"}}).Fails(t, "pulling image 127.0.0.1:1/missing:1", "state")
}

func TestErrorsOfTheCheckAreShown(t *testing.T) {
	docker := dockertest.Client(t)
	r := resource(t, docker, dockertest.Image(t, docker, v1.Config{}), object{"check": []string{"/program", "complain", "oh", "no"}})
	_, _, stderr := r.Invoke(t, nil, "state")
	assert.True(t, stderr == "oh no\n", "stderr: %q", stderr)
}

func TestCancelledCommandIsRemoved(t *testing.T) {
	docker := dockertest.Client(t)
	image := dockertest.Image(t, docker, v1.Config{})
	r := resource(t, docker, image, object{"check": []string{"/program", "serve"}})
	config := Config{Image: image, Check: Command{"/program", "serve"}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := commandType{daemon.Connector(daemon.Socket)}.run(ctx, protocol.Request[Config]{
			InitInput: protocol.InitInput{Name: r.Name}, Config: config, Stderr: &bytes.Buffer{},
		}, "check", config.Check, &bytes.Buffer{}, &bytes.Buffer{})
		done <- err
	}()
	waitFor(t, docker, r.Name, "start")
	cancel()
	assert.ErrorIs(t, <-done, context.Canceled)
}

// waitFor waits until a container of the resource has had the event.
func waitFor(t *testing.T, docker *client.Client, name, event string) {
	t.Helper()
	events := docker.Events(t.Context(), client.EventsListOptions{
		Since:   "0",
		Filters: client.Filters{}.Add("label", daemon.LabelManaged+"="+name).Add("event", event),
	})
	select {
	case <-events.Messages:
	case err := <-events.Err:
		t.Fatal(err)
	}
}

func TestWaitsForTheCommandOfAnEarlierRun(t *testing.T) {
	docker := dockertest.Client(t)
	image := dockertest.Image(t, docker, v1.Config{})
	r := resource(t, docker, image, object{"check": []string{"/program", "print", "fine"}})
	left := must.Get(docker.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config: &container.Config{Image: image, Labels: map[string]string{
			daemon.LabelManaged: r.Name, daemon.LabelWorkspace: r.Workspace, labelCommand: "apply",
		}},
		HostConfig: &container.HostConfig{AutoRemove: true},
	}))(t)
	must.Get(docker.ContainerStart(t.Context(), left.ID, client.ContainerStartOptions{}))(t)
	said := make(chan string, 1)
	done := make(chan error, 1)
	go func() {
		exit, err := commandType{daemon.Connector(daemon.Socket)}.run(t.Context(), protocol.Request[Config]{
			InitInput: protocol.InitInput{Name: r.Name, Workspace: r.Workspace},
			Config:    Config{Image: image}, Stderr: writer(func(p []byte) { said <- string(p) }),
		}, "check", Command{"/program", "exit", "3"}, &bytes.Buffer{}, &bytes.Buffer{})
		if err == nil && exit != 3 {
			err = errors.New("the command did not run")
		}
		done <- err
	}()
	assert.Contains(t, <-said, "waiting for the apply command of an earlier run", "said")
	gone := docker.ContainerWait(t.Context(), left.ID, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
	must.Get(docker.ContainerStop(t.Context(), left.ID, client.ContainerStopOptions{}))(t)
	assert.NoError(t, <-done)
	select {
	case <-gone.Result:
	case <-gone.Error:
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

func TestTheEngineKeepsNoOutput(t *testing.T) {
	if got := hostSpec(protocol.Request[Config]{}).LogConfig.Type; got != "none" { // else the disk fills
		t.Errorf("the log driver is %q", got)
	}
}

func TestServedCommands(t *testing.T) {
	docker := dockertest.Client(t)
	image := dockertest.Image(t, docker, v1.Config{})
	var commands []typetest.Resource
	for _, check := range []string{"one", "two"} {
		commands = append(commands, resource(t, docker, image, object{
			"check": []string{"/program", "print", check}, "apply": []string{"/program", "print", "applied", check},
			"env": object{"A": check},
		}))
	}
	typetest.LivesServed(t, commands...)
	failing := resource(t, docker, image, object{"check": []string{"/program", "exit", "3"}, "apply": []string{"/program", "flood"}})
	process := typetest.Served(t, Type())
	typetest.SameAnswers(t, process, append(commands, failing), "state")
	typetest.SameAnswers(t, process, append(commands, failing), "run-command")
}

// With a configuration each check runs a container, or several; what these do the tests above tell.
func TestCommandsKeepToTheProtocol(t *testing.T) { protocoltest.Check(t, Type(), nil, nil, nil) }
