package container

import (
	"context"
	"fmt"
	"maps"
	"net"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	dockercontainer "github.com/moby/moby/api/types/container"
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
	b := box{docker: docker, name: dockertest.Name("box")}
	config = maps.Clone(config)
	config["name"] = b.name
	b.Resource = typetest.Resource{Type: Type(), Name: "web", Config: config}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, name := range []string{b.name, b.name + "-deployster-old", b.name + "-deployster-new"} {
			_, err := docker.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			assert.True(t, err == nil || errdefs.IsNotFound(err), "removing %s: %v", name, err)
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
	got := must.Get(b.docker.ContainerInspect(t.Context(), b.name, client.ContainerInspectOptions{}))(t)
	return got.Container
}

// alone requires that nothing of a replacement was left.
func (b box) alone(t *testing.T) {
	all, err := b.docker.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("name", b.name)})
	assert.True(t, err == nil && len(all.Items) == 1, "containers: %+v, %v", all.Items, err)
}

func network(t *testing.T, docker *client.Client) string {
	name := dockertest.Name("net")
	require.NoError(t, must.Fail(docker.NetworkCreate(t.Context(), name, client.NetworkCreateOptions{})))
	t.Cleanup(func() {
		_, err := docker.NetworkRemove(context.WithoutCancel(t.Context()), name, client.NetworkRemoveOptions{})
		assert.True(t, err == nil || errdefs.IsNotFound(err), "%v", err)
	})
	return name
}

func volume(t *testing.T, docker *client.Client) string {
	name := dockertest.Name("vol")
	t.Cleanup(func() {
		_, _ = docker.VolumeRemove(context.WithoutCancel(t.Context()), name, client.VolumeRemoveOptions{Force: true})
	})
	return name
}

func freePort(t *testing.T) int {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestLifeOfAContainer(t *testing.T) {
	docker := dockertest.Client(t)
	net1 := network(t, docker)
	b := newBox(t, docker, object{
		"image": dockertest.Image(t, docker, v1.Config{}), "ports": list{object{"container": 80, "address": "127.0.0.1"}},
		"networks": list{net1}, "env": object{"PORT": 80},
	})
	s := b.Stale(t, "create-container")
	assert.True(t, s.StaleState == nil, "stale state of what does not exist: %v", s.StaleState)
	state, output := b.Apply(t)
	assert.True(t, state["running"] == true && state["healthy"] == true && state["health"] == "none" && state["name"] == b.name,
		"state: %v", state)
	port := state["ports"].(list)[0].(object)
	assert.True(t, port["container"] == int64(80) && port["host"].(int64) != 0 && port["address"] == "127.0.0.1",
		"ports: %v", state["ports"])
	a := state["addresses"].(object)[net1]
	assert.True(t, a != nil && net.ParseIP(a.(string)) != nil, "addresses: %v", state["addresses"])
	assert.Contains(t, output, "created container", "output")
	if labels := b.inspect(t).Config.Labels; labels["deployster.resource"] != "" || labels[daemon.LabelManaged] != "web" {
		t.Errorf("labels: %v", labels) // the runner sweeps what has deployster.resource
	}
	if code, _, stderr := b.Invoke(t, nil, "create-container"); code != 0 { // an action may be run again
		t.Errorf("creating again ended with %d: %s", code, stderr)
	}
	assert.True(t, b.inspect(t).ID == state["id"], "creating again made another container")
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
			state, _ := b.Apply(t)
			assert.True(t, state["health"] == "healthy", "state: %v", state)
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
			d := stale.Actions[0].Description
			assert.True(t, strings.HasSuffix(d, ": "+tc.why), "got %q, want %q", d, tc.why)
		})
	}
	same := b.with(object{ // the same in other words
		"mounts":   list{b.Config.(object)["mounts"].(list)[1], object{"path": dir + "/", "target": "/host/"}},
		"ports":    list{object{"container": 53, "protocol": "udp", "address": "0.0.0.0"}, object{"container": 80, "protocol": "tcp"}},
		"networks": list{net1}, "adopt": true,
	})
	state := same.Valid(t)
	// What ignore_changes leaves comes back as it is shown: the image by its content, whatever its name means by now.
	shown := fmt.Sprintf("%s (%.19s)", state["image"], state["image_id"])
	b.with(object{"image": shown}).Valid(t)
	b.with(object{"image": shown, "user": "2"}).Stale(t, "recreate-container")
}

func TestOldSecretsAreNotShown(t *testing.T) {
	docker := dockertest.Client(t)
	ref := dockertest.Image(t, docker, v1.Config{})
	b := newBox(t, docker, object{
		"image": ref, "env": object{"LEVEL": 3, "KEY": "old secret"}, "secret_env": object{"TOKEN": "old secret", "SAME": "x", "GONE": "gone secret"}, "public_env": object{"VERSION": "1"},
	})
	b.Apply(t)
	b.Valid(t)
	rotated := b.with(object{"image": ref, "env": object{"LEVEL": 4, "TOKEN": "new"}, "secret_env": object{"SAME": "x", "KEY": "new"}, "public_env": object{"VERSION": "2"}})
	_, stdout, stderr := rotated.Invoke(t, nil, "state")
	assert.False(t, strings.Contains(stdout+stderr, " secret"), "shown: %s%s", stdout, stderr)
	state := rotated.State(t).StaleState
	for property, want := range map[string]object{
		"env":        {"LEVEL": "3", "TOKEN": "(another value)", "GONE": "(another value)"},
		"secret_env": {"SAME": "x", "KEY": "(another value)"},
		"public_env": {"VERSION": "1"},
	} {
		got := state[property]
		assert.True(t, reflect.DeepEqual(got, want), "%s: %v, want %v", property, got, want)
	}
	rotated.Apply(t)
	rotated.Valid(t)
}

// A container that a former version made does not say which of its variables were no secrets, and
// is not made anew because one of them is said to be one.
func TestVariablesOfFormerVersionsWereSecret(t *testing.T) {
	docker := dockertest.Client(t)
	ref := dockertest.Image(t, docker, v1.Config{})
	b := newBox(t, docker, object{"image": ref, "secret_env": object{"TOKEN": "old secret"}})
	b.Apply(t)
	b.with(object{"env": object{"TOKEN": "old secret"}, "secret_env": object{}}).Valid(t)
	changed := b.with(object{"env": object{"TOKEN": "new"}, "secret_env": object{}})
	_, stdout, stderr := changed.Invoke(t, nil, "state")
	assert.False(t, strings.Contains(stdout+stderr, "old secret"), "shown: %s%s", stdout, stderr)
}

func TestEveryChangeByHandIsFound(t *testing.T) {
	docker := dockertest.Client(t)
	net1, net2 := network(t, docker), network(t, docker)
	ref := dockertest.Image(t, docker, v1.Config{})
	b := newBox(t, docker, object{"image": ref, "networks": list{net1, net2}, "restart": "unless-stopped"})
	b.Apply(t)
	ctx := t.Context()
	restarts := func(policy dockercontainer.RestartPolicyMode, retries int) error {
		return must.Fail(docker.ContainerUpdate(ctx, b.name, client.ContainerUpdateOptions{
			RestartPolicy: &dockercontainer.RestartPolicy{Name: policy, MaximumRetryCount: retries},
		}))
	}
	disconnect := func(network string) error {
		return must.Fail(docker.NetworkDisconnect(ctx, network, client.NetworkDisconnectOptions{Container: b.name}))
	}
	for _, tc := range []struct {
		name, action string
		change       func() error
	}{
		{"stopped", "start-container", func() error { return must.Fail(docker.ContainerStop(ctx, b.name, client.ContainerStopOptions{})) }},
		{"killed", "start-container", func() error {
			return must.Fail(docker.ContainerKill(ctx, b.name, client.ContainerKillOptions{Signal: "KILL"}))
		}},
		{"paused", "start-container", func() error { return must.Fail(docker.ContainerPause(ctx, b.name, client.ContainerPauseOptions{})) }},
		{"restart policy", "update-container", func() error { return restarts("always", 0) }},
		{"retries", "update-container", func() error { return restarts("on-failure", 2) }},
		{"disconnected", "update-container", func() error { return disconnect(net2) }},
		{"disconnected from its first", "update-container", func() error { return disconnect(net1) }},
		{"connected", "update-container", func() error {
			return must.Fail(docker.NetworkConnect(ctx, "bridge", client.NetworkConnectOptions{Container: b.name}))
		}},
		{"removed", "create-container", func() error {
			return must.Fail(docker.ContainerRemove(ctx, b.name, client.ContainerRemoveOptions{Force: true}))
		}},
		{"tag moved", "recreate-container", func() error { dockertest.Load(t, docker, ref, v1.Config{Env: []string{"NEW=1"}}); return nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := b.State(t).State["id"]
			require.NoError(t, tc.change())
			b.Stale(t, tc.action)
			after, _ := b.Apply(t)
			inPlace := tc.action == "start-container" || tc.action == "update-container"
			assert.True(t, (before == after["id"]) == inPlace, "id was %v, is %v", before, after["id"])
			c := b.inspect(t)
			assert.True(t, c.HostConfig.RestartPolicy.Name == "unless-stopped" && len(c.NetworkSettings.Networks) == 2,
				"restart %v, networks %v", c.HostConfig.RestartPolicy, c.NetworkSettings.Networks)
			b.alone(t)
		})
	}
	b.Gone().Apply(t) // before the image that it runs now
}

func TestANetworkThatWasMadeAnewIsJoinedAgain(t *testing.T) {
	docker := dockertest.Client(t)
	net1 := network(t, docker)
	b := newBox(t, docker, object{"image": dockertest.Image(t, docker, v1.Config{}), "networks": list{net1}})
	b.Apply(t)
	for _, err := range []error{
		must.Fail(docker.ContainerStop(t.Context(), b.name, client.ContainerStopOptions{})),
		must.Fail(docker.NetworkRemove(t.Context(), net1, client.NetworkRemoveOptions{})),
		must.Fail(docker.NetworkCreate(t.Context(), net1, client.NetworkCreateOptions{})),
	} {
		require.NoError(t, err)
	}
	b.Stale(t, "update-container", "start-container")
	b.Apply(t)
}

func TestWhatSomebodyElseMadeIsLeftAlone(t *testing.T) {
	docker := dockertest.Client(t)
	image := dockertest.Image(t, docker, v1.Config{Cmd: []string{"serve"}})
	b := newBox(t, docker, object{"image": image, "env": object{"A": "1"}})
	theirs, err := docker.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Name: b.name, Config: &dockercontainer.Config{Image: image, Env: []string{"A=1"}, Labels: map[string]string{"theirs": "1"}},
	})
	require.NoError(t, err)
	b.Fails(t, "was not made by Deployster", "state")
	b.Fails(t, "was not made by Deployster", "recreate-container")
	b.Gone().Fails(t, "was not made by Deployster", "remove-container")

	adopted := b.with(object{"adopt": true})
	adopted.Stale(t, "start-container")
	state, _ := adopted.Apply(t)
	assert.True(t, state["id"] == theirs.ID, "a container that is as configured was replaced: %v", state)
	state, _ = adopted.with(object{"env": object{"A": "2"}}).Apply(t)
	assert.True(t, state["id"] != theirs.ID, "state: %v", state)
	b.with(object{"env": object{"A": "2"}}).Valid(t) // it is ours now
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

func TestContainersKeepToTheProtocol(t *testing.T) {
	docker := dockertest.Client(t)
	image := dockertest.Image(t, docker, v1.Config{})
	protocoltest.Check(t, managed(0).Type(daemon.Socket), newBox(t, docker, object{"image": image, "env": object{"A": "b"}, "labels": object{"a": "b"}}).Config, nil, map[string]string{"docker": daemon.Socket})
}

type request = protocol.Request[Config]

func TestBadConfiguration(t *testing.T) {
	image := func(more object) object { more["image"] = "x"; return more }
	for want, config := range map[string]object{
		`"image" is required`:                                      {},
		`restart "sometimes" must be`:                              image(object{"restart": "sometimes"}),
		`network "host" cannot be combined`:                        image(object{"networks": list{"host", "a"}}),
		"ports[0]: 0/tcp is not a port":                            image(object{"ports": list{object{"host": 80}}}),
		"ports[0]: 80/icmp is not a port":                          image(object{"ports": list{object{"container": 80, "protocol": "icmp"}}}),
		`ports[0]: address "localhost" must be an IP address`:      image(object{"ports": list{object{"container": 80, "address": "localhost"}}}),
		"ports[1]: the same port is listed twice":                  image(object{"ports": list{object{"container": 80}, object{"container": 80, "protocol": "tcp"}}}),
		"cannot unmarshal number 70000":                            image(object{"ports": list{object{"container": 70000}}}),
		`mounts[0]: either "volume" or "path" must be given`:       image(object{"mounts": list{object{"target": "/a"}}}),
		`mounts[0]: target "a" must be an absolute path below /`:   image(object{"mounts": list{object{"volume": "v", "target": "a"}}}),
		`mounts[0]: path "a" must be absolute`:                     image(object{"mounts": list{object{"path": "a", "target": "/a"}}}),
		"mounts[1]: target /a is listed twice":                     image(object{"mounts": list{object{"volume": "v", "target": "/a"}, object{"volume": "w", "target": "/a/"}}}),
		"health: a command is required":                            image(object{"health": object{}}),
		`a duration must be at least a millisecond and like "30s"`: image(object{"health": object{"command": list{"x"}, "interval": "1"}}),
		"environment variable A must be text":                      image(object{"env": object{"A": list{}}}),
		"environment variable A is in env and in public_env":       image(object{"env": object{"A": "1"}, "public_env": object{"A": "2"}}),
		"environment variable A is in env and in secret_env":       image(object{"env": object{"A": "1"}, "secret_env": object{"A": "1"}}),
		"environment variable B must be text":                      image(object{"public_env": object{"B": list{}}}),
		`unknown field "imagee"`:                                   image(object{"imagee": "x"}),
	} {
		r := typetest.Resource{Type: managed(settling).Type("/does/not/exist.sock"), Name: "web", Config: config}
		r.Fails(t, want, "state")
	}
}

func TestWhatBelongsToAnotherResourceIsLeftAlone(t *testing.T) {
	docker := dockertest.Client(t)
	a := newBox(t, docker, object{"image": dockertest.Image(t, docker, v1.Config{Cmd: []string{"serve"}})})
	with := func(r typetest.Resource, member string, value any) typetest.Resource {
		b := a
		b.Resource = r
		return b.with(object{member: value}).Resource
	}
	typetest.BelongsToOne(t, a.Resource, with, "user", "1", "recreate-container", "restart-container", "remove-container")
}

func TestHowAnAddressIsWrittenIsNoDrift(t *testing.T) {
	docker := dockertest.Client(t)
	image := dockertest.Image(t, docker, v1.Config{Cmd: []string{"serve"}})
	var ports list
	for i, address := range []string{"::", "0.0.0.0", "0:0::0", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"} {
		ports = append(ports, object{"container": 80 + i, "address": address})
	}
	newBox(t, docker, object{"image": image, "ports": ports}).Apply(t)
}

func TestNetworksMayBeGivenByTheirIDs(t *testing.T) {
	docker := dockertest.Client(t)
	image := dockertest.Image(t, docker, v1.Config{Cmd: []string{"serve"}})
	id := func(name string) string {
		n := must.Get(docker.NetworkInspect(t.Context(), name, client.NetworkInspectOptions{}))(t)
		return n.Network.ID
	}
	net1, net2 := network(t, docker), network(t, docker)
	b := newBox(t, docker, object{"image": image, "networks": list{id(net1), net1}})
	b.Apply(t)
	b.with(object{"networks": list{net1}}).Valid(t)
	both := b.with(object{"networks": list{"default", id(net2)}})
	both.Stale(t, "update-container")
	state, _ := both.Apply(t)
	a := state["addresses"].(object)
	assert.True(t, a["bridge"] != nil && a[net2] != nil && a[net1] == nil, "addresses: %v", a)
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
