package container

import (
	"context"
	"fmt"
	"maps"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/daemon"
	"github.com/deployster-go/deployster/resources/internal/dockertest"
	"github.com/deployster-go/deployster/resources/internal/typetest"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

type (
	object = map[string]any
	list   = []any
)

// box is a container resource under test and the engine it is on.
type box struct {
	typetest.Resource
	docker *client.Client
	name   string
}

func newBox(t *testing.T, docker *client.Client, config object) box {
	t.Helper()
	b := box{docker: docker, name: dockertest.Name("box")}
	config = maps.Clone(config)
	config["name"] = b.name
	b.Resource = typetest.Resource{Type: Type(), Name: "web", Config: config}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, name := range []string{b.name, b.name + "-deployster-old", b.name + "-deployster-new"} {
			_, err := docker.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			if err != nil && !errdefs.IsNotFound(err) {
				t.Errorf("removing %s: %v", name, err)
			}
		}
	})
	return b
}

// with is the same container with some members of its configuration changed;
// nil removes one.
func (b box) with(changes object) box {
	config := maps.Clone(b.Config.(object))
	for k, v := range changes {
		if config[k] = v; v == nil {
			delete(config, k)
		}
	}
	b.Config = config
	return b
}

func (b box) inspect(t *testing.T) dockercontainer.InspectResponse {
	t.Helper()
	got, err := b.docker.ContainerInspect(t.Context(), b.name, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got.Container
}

// alone requires that nothing of a replacement was left.
func (b box) alone(t *testing.T) {
	t.Helper()
	all, err := b.docker.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("name", b.name)})
	if err != nil || len(all.Items) != 1 {
		t.Errorf("containers: %+v, %v", all.Items, err)
	}
}

func network(t *testing.T, docker *client.Client) string {
	t.Helper()
	name := dockertest.Name("net")
	if _, err := docker.NetworkCreate(t.Context(), name, client.NetworkCreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := docker.NetworkRemove(context.WithoutCancel(t.Context()), name, client.NetworkRemoveOptions{})
		if err != nil && !errdefs.IsNotFound(err) {
			t.Error(err)
		}
	})
	return name
}

func volume(t *testing.T, docker *client.Client) string {
	t.Helper()
	name := dockertest.Name("vol")
	t.Cleanup(func() {
		_, _ = docker.VolumeRemove(context.WithoutCancel(t.Context()), name, client.VolumeRemoveOptions{Force: true})
	})
	return name
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLifeOfAContainer(t *testing.T) {
	docker := dockertest.Client(t)
	net1 := network(t, docker)
	b := newBox(t, docker, object{
		"image": dockertest.Image(t, docker, v1.Config{}), "ports": list{object{"container": 80, "address": "127.0.0.1"}},
		"networks": list{net1}, "env": object{"PORT": 80},
	})
	if s := b.Stale(t, "create-container"); s.StaleState != nil {
		t.Errorf("stale state of what does not exist: %v", s.StaleState)
	}
	state, output := b.Apply(t)
	if state["running"] != true || state["healthy"] != true || state["health"] != "none" || state["name"] != b.name {
		t.Errorf("state: %v", state)
	}
	port := state["ports"].(list)[0].(object)
	if port["container"] != int64(80) || port["host"].(int64) == 0 || port["address"] != "127.0.0.1" {
		t.Errorf("ports: %v", state["ports"])
	}
	if a := state["addresses"].(object)[net1]; a == nil || net.ParseIP(a.(string)) == nil {
		t.Errorf("addresses: %v", state["addresses"])
	}
	if !strings.Contains(output, "created container") {
		t.Errorf("output: %s", output)
	}
	if labels := b.inspect(t).Config.Labels; labels["deployster.resource"] != "" || labels[daemon.LabelManaged] != "web" {
		t.Errorf("labels: %v", labels) // the runner sweeps what has deployster.resource
	}
	if code, _, stderr := b.Invoke(t, nil, "create-container"); code != 0 { // an action may be run again
		t.Errorf("creating again ended with %d: %s", code, stderr)
	}
	if b.inspect(t).ID != state["id"] {
		t.Error("creating again made another container")
	}
	b.alone(t)
	b.Gone().Stale(t, "remove-container")
	b.Gone().Apply(t)
	b.Gone().Valid(t)
	b.Stale(t, "create-container")
}

func TestWhatTheImageSaysIsNoDrift(t *testing.T) {
	docker := dockertest.Client(t)
	image := dockertest.Image(t, docker, v1.Config{
		Cmd: []string{"serve"}, Env: []string{"A=1", "B=2"}, Labels: map[string]string{"vendor": "x", "v": "1"}, User: "12",
		WorkingDir: "/data", Volumes: map[string]struct{}{"/data": {}}, ExposedPorts: map[string]struct{}{"80/tcp": {}},
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/program", "exit", "0"}, Interval: 100e6, Retries: 2},
	})
	for name, config := range map[string]object{
		"nothing more": {},
		"overridden": {
			"command": list{"serve", "more"}, "env": object{"B": "3", "C": "4"}, "labels": object{"v": "2"}, "user": "13",
			"workdir": "/", "health": object{"command": list{"/program", "print", "x"}, "interval": "50ms"},
		},
		"own entrypoint": {"entrypoint": list{"/program", "serve"}},
		"own mount":      {"mounts": list{object{"volume": volume(t, docker), "target": "/data"}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, docker, object{"image": image}).with(config)
			if state, _ := b.Apply(t); state["health"] != "healthy" {
				t.Errorf("state: %v", state)
			}
			b.Gone().Apply(t)
		})
	}
}

func TestEveryChangeOfTheConfigurationIsFound(t *testing.T) {
	docker := dockertest.Client(t)
	net1, net2 := network(t, docker), network(t, docker)
	dir := t.TempDir()
	b := newBox(t, docker, object{
		"image": dockertest.Image(t, docker, v1.Config{Cmd: []string{"serve"}, Env: []string{"BASE=1"}}), "command": list{"serve", "1"},
		"env": object{"A": "1", "B": "2"}, "ports": list{object{"container": 80}, object{"container": 53, "protocol": "udp"}},
		"mounts":   list{object{"path": dir, "target": "/host"}, object{"volume": volume(t, docker), "target": "/vol", "read_only": true}},
		"networks": list{net1}, "restart": "on-failure", "labels": object{"l": "1"}, "user": "1", "workdir": "/data",
		"health": object{"command": list{"/program", "exit", "0"}, "interval": "200ms"},
	})
	b.Apply(t)
	for name, tc := range map[string]struct {
		change object
		action string
		why    string
	}{
		"command":             {object{"command": list{"serve", "2"}}, "recreate-container", "command"},
		"no command":          {object{"command": nil}, "recreate-container", "command"},
		"entrypoint":          {object{"entrypoint": list{"/program", "serve"}}, "recreate-container", "entrypoint"},
		"another variable":    {object{"env": object{"A": "2", "B": "2"}}, "recreate-container", "env A"},
		"a new variable":      {object{"env": object{"A": "1", "B": "2", "C": ""}}, "recreate-container", "env C"},
		"a variable less":     {object{"env": object{"A": "1"}}, "recreate-container", "env B"},
		"the image's":         {object{"env": object{"A": "1", "B": "2", "BASE": 2}}, "recreate-container", "env BASE"},
		"a host port":         {object{"ports": list{object{"container": 80, "host": 8080}, object{"container": 53, "protocol": "udp"}}}, "recreate-container", "ports"},
		"a port less":         {object{"ports": list{object{"container": 80}}}, "recreate-container", "ports"},
		"another protocol":    {object{"ports": list{object{"container": 80}, object{"container": 53}}}, "recreate-container", "ports"},
		"no mounts":           {object{"mounts": nil}, "recreate-container", "mounts"},
		"writable":            {object{"mounts": list{object{"path": dir, "target": "/host", "read_only": true}}}, "recreate-container", "mounts"},
		"restart":             {object{"restart": "always"}, "update-container", "restart"},
		"no restart":          {object{"restart": nil}, "update-container", "restart"},
		"one network more":    {object{"networks": list{net1, net2}}, "update-container", "networks"},
		"another network":     {object{"networks": list{net2}}, "update-container", "networks"},
		"no network":          {object{"networks": list{"none"}}, "recreate-container", "networks"},
		"labels":              {object{"labels": object{"l": "2"}}, "recreate-container", "labels"},
		"no labels":           {object{"labels": nil}, "recreate-container", "labels"},
		"user":                {object{"user": "2"}, "recreate-container", "user"},
		"image's user":        {object{"user": nil}, "recreate-container", "user"},
		"workdir":             {object{"workdir": "/"}, "recreate-container", "workdir"},
		"health command":      {object{"health": object{"command": list{"/program", "exit", "1"}, "interval": "200ms"}}, "recreate-container", "health"},
		"health interval":     {object{"health": object{"command": list{"/program", "exit", "0"}, "interval": "300ms"}}, "recreate-container", "health"},
		"no health check":     {object{"health": nil}, "recreate-container", "health"},
		"several at once":     {object{"user": "2", "restart": "no", "labels": nil}, "recreate-container", "user, labels, restart"},
		"an image to be made": {object{"image": "127.0.0.1:1/other:1"}, "recreate-container", "image"},
	} {
		t.Run(name, func(t *testing.T) {
			stale := b.with(tc.change).Stale(t, tc.action)
			if d := stale.Actions[0].Description; !strings.HasSuffix(d, ": "+tc.why) {
				t.Errorf("got %q, want %q", d, tc.why)
			}
		})
	}
	same := b.with(object{ // the same in other words
		"mounts":   list{b.Config.(object)["mounts"].(list)[1], object{"path": dir + "/", "target": "/host/"}},
		"ports":    list{object{"container": 53, "protocol": "udp", "address": "0.0.0.0"}, object{"container": 80, "protocol": "tcp"}},
		"networks": list{net1}, "adopt": true,
	})
	same.Valid(t)
}

func TestOldSecretsAreNotShown(t *testing.T) {
	docker := dockertest.Client(t)
	b := newBox(t, docker, object{"image": dockertest.Image(t, docker, v1.Config{}), "env": object{"TOKEN": "old secret", "SAME": "x", "GONE": "gone secret"}})
	b.Apply(t)
	rotated := b.with(object{"env": object{"TOKEN": "new", "SAME": "x"}})
	_, stdout, stderr := rotated.Invoke(t, nil, "state")
	if strings.Contains(stdout+stderr, "secret") {
		t.Errorf("shown: %s%s", stdout, stderr)
	}
	if env := rotated.State(t).StaleState["env"].(object); env["SAME"] != "x" || env["TOKEN"] != "(another value)" {
		t.Errorf("env: %v", env)
	}
}

func TestEveryChangeByHandIsFound(t *testing.T) {
	docker := dockertest.Client(t)
	net1, net2 := network(t, docker), network(t, docker)
	ref := dockertest.Image(t, docker, v1.Config{})
	b := newBox(t, docker, object{"image": ref, "networks": list{net1, net2}, "restart": "unless-stopped"})
	b.Apply(t)
	for _, tc := range []struct {
		name   string
		change func(t *testing.T)
		action string
	}{
		{"stopped", func(t *testing.T) {
			check(t, must(docker.ContainerStop(t.Context(), b.name, client.ContainerStopOptions{})))
		}, "start-container"},
		{"killed", func(t *testing.T) {
			check(t, must(docker.ContainerKill(t.Context(), b.name, client.ContainerKillOptions{Signal: "KILL"})))
		}, "start-container"},
		{"paused", func(t *testing.T) {
			check(t, must(docker.ContainerPause(t.Context(), b.name, client.ContainerPauseOptions{})))
		}, "start-container"},
		{"restart policy", func(t *testing.T) {
			check(t, must(docker.ContainerUpdate(t.Context(), b.name, client.ContainerUpdateOptions{RestartPolicy: &dockercontainer.RestartPolicy{Name: "always"}})))
		}, "update-container"},
		{"retries", func(t *testing.T) {
			check(t, must(docker.ContainerUpdate(t.Context(), b.name, client.ContainerUpdateOptions{
				RestartPolicy: &dockercontainer.RestartPolicy{Name: "on-failure", MaximumRetryCount: 2},
			})))
		}, "update-container"},
		{"disconnected", func(t *testing.T) {
			check(t, must(docker.NetworkDisconnect(t.Context(), net2, client.NetworkDisconnectOptions{Container: b.name})))
		}, "update-container"},
		{"disconnected from its first", func(t *testing.T) {
			check(t, must(docker.NetworkDisconnect(t.Context(), net1, client.NetworkDisconnectOptions{Container: b.name})))
		}, "update-container"},
		{"connected", func(t *testing.T) {
			check(t, must(docker.NetworkConnect(t.Context(), "bridge", client.NetworkConnectOptions{Container: b.name})))
		}, "update-container"},
		{"removed", func(t *testing.T) {
			check(t, must(docker.ContainerRemove(t.Context(), b.name, client.ContainerRemoveOptions{Force: true})))
		}, "create-container"},
		{"tag moved", func(*testing.T) {
			dockertest.Load(t, docker, ref, v1.Config{Env: []string{"NEW=1"}})
		}, "recreate-container"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := b.State(t).State["id"]
			tc.change(t)
			b.Stale(t, tc.action)
			after, _ := b.Apply(t)
			inPlace := tc.action == "start-container" || tc.action == "update-container"
			if (before == after["id"]) != inPlace {
				t.Errorf("id was %v, is %v", before, after["id"])
			}
			if c := b.inspect(t); c.HostConfig.RestartPolicy.Name != "unless-stopped" || len(c.NetworkSettings.Networks) != 2 {
				t.Errorf("restart %v, networks %v", c.HostConfig.RestartPolicy, c.NetworkSettings.Networks)
			}
			b.alone(t)
		})
	}
	b.Gone().Apply(t) // before the image that it runs now
}

// must drops the result of a call that is made for its effect.
func must[T any](_ T, err error) error { return err }

func TestANetworkThatWasMadeAnewIsJoinedAgain(t *testing.T) {
	docker := dockertest.Client(t)
	net1 := network(t, docker)
	b := newBox(t, docker, object{"image": dockertest.Image(t, docker, v1.Config{}), "networks": list{net1}})
	b.Apply(t)
	for _, err := range []error{
		must(docker.ContainerStop(t.Context(), b.name, client.ContainerStopOptions{})),
		must(docker.NetworkRemove(t.Context(), net1, client.NetworkRemoveOptions{})),
		must(docker.NetworkCreate(t.Context(), net1, client.NetworkCreateOptions{})),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	b.Stale(t, "update-container", "start-container")
	b.Apply(t)
}

func TestReplacementMayUseTheSamePort(t *testing.T) {
	docker := dockertest.Client(t)
	port := freePort(t)
	b := newBox(t, docker, object{
		"image": dockertest.Image(t, docker, v1.Config{}), "env": object{"V": 1},
		"ports": list{object{"container": 80, "host": port, "address": "127.0.0.1"}},
	})
	before, _ := b.Apply(t)
	after, output := b.with(object{"env": object{"V": 2}}).Apply(t)
	if before["id"] == after["id"] || after["ports"].(list)[0].(object)["host"] != int64(port) {
		t.Errorf("was %v, is %v", before, after)
	}
	b.alone(t)
	if !strings.Contains(output, "stopping the old container") {
		t.Errorf("output: %s", output)
	}
}

func TestFailedReplacementIsUndone(t *testing.T) {
	docker := dockertest.Client(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
			if after := b.Valid(t); after["id"] != before["id"] {
				t.Errorf("was %v, is %v", before, after)
			}
			b.alone(t)
		})
	}
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

// What creating a container says does not depend on whether its health was known
// before anybody looked.
func TestThatHealthIsWaitedForIsAlwaysSaid(t *testing.T) {
	docker := dockertest.Client(t)
	b := newBox(t, docker, object{
		"image":  dockertest.Image(t, docker, v1.Config{Cmd: []string{"serve"}}),
		"health": object{"command": list{"/program", "exit", "0"}, "interval": "1ms", "timeout": "10m", "start_period": "10m"},
	})
	const waiting = "waiting until container"
	if code, said, _ := b.Invoke(t, nil, "create-container"); code != 0 || strings.Count(said, waiting) != 1 {
		t.Errorf("ended with %d, and said %q", code, said)
	}
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
	if code := <-made; code != 0 {
		t.Fatalf("creating ended with %d", code)
	}
	if state := b.Valid(t); state["health"] != "healthy" || state["healthy"] != true {
		t.Errorf("state: %v", state)
	}
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
	t.Helper()
	created, err := docker.ExecCreate(t.Context(), name, client.ExecCreateOptions{Cmd: command, AttachStdout: true})
	if err != nil {
		t.Fatal(err)
	}
	attached, err := docker.ExecAttach(t.Context(), created.ID, client.ExecAttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer attached.Close()
	if _, err := attached.Reader.WriteTo(discard{}); err != nil {
		t.Fatal(err)
	}
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
			id, err := m.create(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i, step := range []func() error{
				func() error { return must(docker.ContainerStop(t.Context(), old, client.ContainerStopOptions{})) },
				func() error { return m.rename(t.Context(), old, m.oldName()) },
				func() error { return m.rename(t.Context(), id, b.name) },
				func() error { return must(docker.ContainerStart(t.Context(), id, client.ContainerStartOptions{})) },
			} {
				if i+2 > tc.until {
					break
				}
				if err := step(); err != nil {
					t.Fatal(err)
				}
			}
			v2.Stale(t, tc.stale)
			v2.Apply(t)
			v2.alone(t)
			if env := fmt.Sprint(b.inspect(t).Config.Env); !strings.Contains(env, "V=2") {
				t.Errorf("env: %s", env)
			}
			v2.Gone().Apply(t)
		})
	}
}

// manage opens what an action of the resource works with.
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
	if code, _, stderr := b.Invoke(t, nil, "capture"); code != 0 {
		t.Fatal(stderr)
	}
	t.Cleanup(func() { _ = m.Docker.Close() })
	return m
}

func TestRemoveClearsLeftovers(t *testing.T) {
	docker := dockertest.Client(t)
	b := newBox(t, docker, object{"image": dockertest.Image(t, docker, v1.Config{})})
	if _, err := manage(t, b).create(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Gone().Stale(t, "remove-container")
	b.Gone().Apply(t)
}

func TestWhatSomebodyElseMadeIsLeftAlone(t *testing.T) {
	docker := dockertest.Client(t)
	image := dockertest.Image(t, docker, v1.Config{Cmd: []string{"serve"}})
	b := newBox(t, docker, object{"image": image, "env": object{"A": "1"}})
	theirs, err := docker.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Name: b.name, Config: &dockercontainer.Config{Image: image, Env: []string{"A=1"}, Labels: map[string]string{"theirs": "1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Fails(t, "was not made by Deployster", "state")
	b.Fails(t, "was not made by Deployster", "recreate-container")
	b.Gone().Fails(t, "was not made by Deployster", "remove-container")

	adopted := b.with(object{"adopt": true})
	adopted.Stale(t, "start-container")
	if state, _ := adopted.Apply(t); state["id"] != theirs.ID {
		t.Errorf("a container that is as configured was replaced: %v", state)
	}
	if state, _ := adopted.with(object{"env": object{"A": "2"}}).Apply(t); state["id"] == theirs.ID {
		t.Errorf("state: %v", state)
	}
	b.with(object{"env": object{"A": "2"}}).Valid(t) // it is ours now
}

func TestAnonymousVolumesSurviveAReplacement(t *testing.T) {
	docker := dockertest.Client(t)
	b := newBox(t, docker, object{"image": dockertest.Image(t, docker, v1.Config{Volumes: map[string]struct{}{"/data": {}}})})
	b.Apply(t)
	kept := b.inspect(t).Mounts[0].Name
	t.Cleanup(func() {
		if _, err := docker.VolumeRemove(context.WithoutCancel(t.Context()), kept, client.VolumeRemoveOptions{}); err != nil {
			t.Error(err)
		}
	})
	_, output := b.with(object{"user": "1"}).Apply(t)
	if !strings.Contains(output, "volume "+kept+", which the old container had at /data, is kept") {
		t.Errorf("output: %s", output)
	}
}

func TestServedContainers(t *testing.T) {
	docker := dockertest.Client(t)
	image := dockertest.Image(t, docker, v1.Config{})
	var containers []typetest.Resource
	for _, config := range []object{{"env": object{"A": 1}}, {"networks": list{"none"}}, {"labels": object{"team": "web"}, "restart": "always"}} {
		config["image"], config["command"] = image, list{"serve"}
		containers = append(containers, newBox(t, docker, config).Resource)
	}
	typetest.LivesServed(t, containers...)
}

// A container that a restart policy starts again and again runs now and then.
// Whoever looks at it in between is told how it ends, and its last output.
func TestAContainerThatKeepsCrashingSaysHow(t *testing.T) {
	docker := dockertest.Client(t)
	b := newBox(t, docker, object{"image": dockertest.Image(t, docker, v1.Config{}), "command": list{"exit", "3"}, "restart": "always"})
	// Whether the end is seen at the start depends on how soon it comes.
	_, _, _ = b.Invoke(t, nil, "create-container")
	if _, err := docker.ContainerStart(t.Context(), b.name, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
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
	if len(answer.Actions) != 1 {
		t.Fatalf("state asks for %+v", answer.Actions)
	}
	said := answer.Actions[0].Description
	if !regexp.MustCompile(`^start container ` + b.name + `, which is restarting, after it exited with 3, and was restarted \d+ times$`).MatchString(said) {
		t.Errorf("state asks to %q", said)
	}
	if !strings.Contains(stderr, "these are the last words") {
		t.Errorf("the last output is not shown: %s", stderr)
	}
}
