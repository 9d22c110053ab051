package network

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/moby/api/types/container"
	dockernet "github.com/moby/moby/api/types/network"
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

func resource(t *testing.T, docker *client.Client, config object) typetest.Resource {
	name := dockertest.Name("net")
	config = maps.Clone(config)
	if config == nil {
		config = object{}
	}
	config["name"] = name
	t.Cleanup(func() {
		_, err := docker.NetworkRemove(context.WithoutCancel(t.Context()), name, client.NetworkRemoveOptions{})
		assert.True(t, err == nil || errdefs.IsNotFound(err), "removing %s: %v", name, err)
		_, _ = docker.VolumeRemove(context.WithoutCancel(t.Context()), name+"-deployster-endpoints", client.VolumeRemoveOptions{Force: true})
	})
	return typetest.Resource{Type: Type(), Name: "front-net", Config: config}
}

// changed is the same configuration with some members changed; nil removes one.
func changed(r typetest.Resource, changes object) typetest.Resource {
	config := object{}
	for _, from := range []object{r.Config.(object), changes} {
		for k, v := range from {
			if config[k] = v; v == nil {
				delete(config, k)
			}
		}
	}
	return r.With(config)
}

func TestLifeOfANetwork(t *testing.T) {
	docker := dockertest.Client(t)
	r := resource(t, docker, object{"labels": object{"team": "web"}, "internal": true})
	s := r.Stale(t, "create-network")
	assert.True(t, s.StaleState == nil, "stale state of what does not exist: %v", s.StaleState)
	state, _ := r.Apply(t)
	if state["driver"] != "bridge" || state["internal"] != true || state["id"] == "" || state["subnet"] == "" || state["labels"].(object)["team"] != "web" {
		t.Errorf("state: %v", state)
	}
	if code, _, stderr := r.Invoke(t, nil, "create-network"); code != 0 { // an action may be run again
		t.Errorf("creating again ended with %d: %s", code, stderr)
	}
	again := r.Valid(t)
	assert.True(t, again["id"] == state["id"], "the network was made twice")
	r.Gone().Stale(t, "remove-network")
	r.Gone().Apply(t)
	r.Gone().Valid(t)
	r.Stale(t, "create-network")
}

func TestDrift(t *testing.T) {
	docker := dockertest.Client(t)
	r := resource(t, docker, object{"labels": object{"a": "1"}, "options": object{"com.docker.network.driver.mtu": "1400"}})
	r.Apply(t)
	for what, change := range map[string]object{
		"internal": {"internal": true},
		"labels":   {"labels": object{"a": "2"}},
		"options":  {"options": object{"com.docker.network.driver.mtu": "1300"}},
		"subnet":   {"subnet": "10.213.17.0/24"},
	} {
		stale := changed(r, change).Stale(t, "recreate-network")
		d := stale.Actions[0].Description
		assert.True(t, strings.HasSuffix(d, ": "+what), "%s: %s", what, d)
	}
	stale := changed(r, object{"labels": nil, "options": nil}).Stale(t, "recreate-network")
	d := stale.Actions[0].Description
	assert.True(t, strings.HasSuffix(d, ": options, labels"), "removed members: %s", d)
}

func TestSubnetAndGateway(t *testing.T) {
	docker := dockertest.Client(t)
	r := resource(t, docker, object{"subnet": "10.213.18.0/24", "gateway": "10.213.18.9"})
	state, _ := r.Apply(t)
	assert.True(t, state["subnet"] == "10.213.18.0/24" && state["gateway"] == "10.213.18.9", "state: %v", state)
	for want, config := range map[string]object{
		"gateway": {"gateway": "10.213.18.1"},
		"subnet":  {"subnet": "10.213.19.0/24", "gateway": nil},
	} {
		d := changed(r, config).Stale(t, "recreate-network").Actions[0].Description
		assert.True(t, strings.HasSuffix(d, ": "+want), "%s: %s", want, d)
	}
	d := changed(r, object{"subnet": nil, "gateway": nil}).Stale(t, "recreate-network").Actions[0].Description
	assert.True(t, strings.HasSuffix(d, ": subnet"), "a subnet that is no longer asked for: %s", d)
	changed(r, object{"subnet": "10.213.18.0/33"}).Fails(t, "must be like 172.28.0.0/16", "state")
	changed(r, object{"gateway": "10.0.0.1"}).Fails(t, "must be an address within", "state")
	changed(r, object{"subnet": nil}).Fails(t, "without the subnet", "state")
}

func TestRecreateKeepsContainersConnected(t *testing.T) {
	docker := dockertest.Client(t)
	r := resource(t, docker, object{"labels": object{"v": "1"}})
	r.Apply(t)
	network := r.Config.(object)["name"].(string)
	image := dockertest.Image(t, docker, v1.Config{})
	running := attach(t, docker, image, network, "db", true)
	stopped := attach(t, docker, image, network, "cache", false)

	r.Gone().Fails(t, "is used by", "remove-network")

	v2 := changed(r, object{"labels": object{"v": "2"}})
	v2.Apply(t)
	wantAliases(t, docker, network, running, "db")
	wantAliases(t, docker, network, stopped, "cache")
	if _, err := docker.ContainerStart(t.Context(), stopped, client.ContainerStartOptions{}); err != nil {
		t.Errorf("starting what was stopped before: %v", err)
	}

	// A subnet that is taken: the network stays as it was, with its containers.
	other := resource(t, docker, object{"subnet": "10.213.20.0/24"})
	other.Apply(t)
	changed(v2, object{"subnet": "10.213.20.0/24"}).Fails(t, "creating network", "recreate-network")
	v2.Valid(t)
	got, err := docker.NetworkInspect(t.Context(), network, client.NetworkInspectOptions{})
	assert.True(t, err == nil && len(got.Network.Containers) == 2, "containers: %v, %v", got.Network.Containers, err)
}

func attach(t *testing.T, docker *client.Client, image, network, alias string, start bool) string {
	c := must.Get(docker.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Name: dockertest.Name(alias), Config: &container.Config{Image: image},
		HostConfig: &container.HostConfig{NetworkMode: container.NetworkMode(network)},
		NetworkingConfig: &dockernet.NetworkingConfig{EndpointsConfig: map[string]*dockernet.EndpointSettings{
			network: {Aliases: []string{alias}},
		}},
	}))(t)
	t.Cleanup(func() {
		_, err := docker.ContainerRemove(context.WithoutCancel(t.Context()), c.ID, client.ContainerRemoveOptions{Force: true})
		assert.True(t, err == nil || errdefs.IsNotFound(err), "%v", err)
	})
	if start {
		require.NoError(t, must.Fail(docker.ContainerStart(t.Context(), c.ID, client.ContainerStartOptions{})))
	}
	return c.ID
}

func TestWhatSomebodyElseMadeIsLeftAlone(t *testing.T) {
	docker := dockertest.Client(t)
	r := resource(t, docker, nil)
	name := r.Config.(object)["name"].(string)
	require.NoError(t, must.Fail(docker.NetworkCreate(t.Context(), name, client.NetworkCreateOptions{Labels: map[string]string{"theirs": "1"}})))
	r.Fails(t, "was not made by Deployster", "state")
	r.Gone().Fails(t, "was not made by Deployster", "remove-network")
	changed(r, object{"adopt": true}).Valid(t)
	changed(r, object{"adopt": true, "internal": true}).Stale(t, "recreate-network")
}

func TestEngineThatIsNotThere(t *testing.T) {
	r := typetest.Resource{Type: managed.Type("/does/not/exist.sock"), Name: "n", Config: object{}}
	r.Fails(t, "/does/not/exist.sock", "state")
}

func TestWhatBelongsToAnotherResourceIsLeftAlone(t *testing.T) {
	with := func(r typetest.Resource, member string, value any) typetest.Resource {
		return changed(r, object{member: value})
	}
	typetest.BelongsToOne(t, resource(t, dockertest.Client(t), nil), with, "internal", true, "recreate-network", "remove-network")
}

func manage(t *testing.T, r typetest.Resource) *manager {
	t.Helper()
	var m *manager
	typ := Type()
	typ.Actions["capture"] = func(_ context.Context, r protocol.Request[Config]) error {
		docker, err := daemon.Connect(daemon.Socket)
		if err == nil {
			m, err = open(managed.Job(docker, r))
		}
		return err
	}
	r.Type = typ
	code, _, stderr := r.Invoke(t, nil, "capture")
	require.True(t, code == 0, stderr)
	t.Cleanup(func() { _ = m.Docker.Close() })
	return m
}

// cut loses the engine after some of the changes that are asked of it.
type cut struct {
	http.RoundTripper
	changes int // still made
}

func (c *cut) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.changes < 0 {
		return nil, errCut
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if c.changes--; c.changes < 0 {
			return nil, errCut
		}
	}
	return c.RoundTripper.RoundTrip(r)
}

var errCut = errors.New("the engine was cut off")

// after loses the manager's engine after some changes.
func (m *manager) after(t *testing.T, changes int) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", daemon.Socket)
	}
	transport := &http.Transport{DialContext: dial}
	t.Cleanup(transport.CloseIdleConnections)
	docker := must.Get(client.New(client.WithHost("tcp://engine:2375"), client.WithHTTPClient(&http.Client{Transport: &cut{transport, changes}})))(t)
	m.Docker = docker
}

// call connects a container to a network anew, with the names that others there have for it.
func call(t *testing.T, docker *client.Client, network, id string, aliases ...string) {
	_, err := docker.NetworkDisconnect(t.Context(), network, client.NetworkDisconnectOptions{Container: id, Force: true})
	if err == nil {
		_, err = docker.NetworkConnect(t.Context(), network, client.NetworkConnectOptions{Container: id, EndpointConfig: &dockernet.EndpointSettings{Aliases: aliases}})
	}
	require.NoError(t, err)
}

func wantAliases(t *testing.T, docker *client.Client, network, id string, aliases ...string) {
	got := must.Get(docker.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{}))(t)
	e := got.Container.NetworkSettings.Networks[network]
	for _, alias := range aliases {
		assert.True(t, e != nil && slices.Contains(e.Aliases, alias),
			"%s is not connected as before, as %s: %+v", got.Container.Name, alias, e)
	}
}

// The engine is lost after each of the changes of a recreation, and the next attempt
// finishes. One alias is the beginning of the container's id, as "db" may be.
func TestInterruptedRecreationLosesNoContainer(t *testing.T) {
	docker := dockertest.Client(t)
	image := dockertest.Image(t, docker, v1.Config{})
	const changes = 10 // note them, disconnect three, remove, create, connect three, forget them
	for n := range changes + 1 {
		t.Run(fmt.Sprintf("after %d of %d changes", n, changes), func(t *testing.T) {
			r := resource(t, docker, object{"labels": object{"v": "1"}})
			r.Apply(t)
			network := r.Config.(object)["name"].(string)
			db, cache, gone := attach(t, docker, image, network, "db", true), attach(t, docker, image, network, "cache", true), attach(t, docker, image, network, "gone", true)
			call(t, docker, network, db, "db", db[:2])
			_, err := docker.ContainerKill(t.Context(), cache, client.ContainerKillOptions{})
			require.NoError(t, err)

			v2 := changed(r, object{"labels": object{"v": "2"}})
			m := manage(t, v2)
			m.after(t, n)
			err = m.recreate(t.Context())
			require.True(t, errors.Is(err, errCut) == (n < changes), "the first attempt ended with %v", err)
			_, err = docker.ContainerRemove(t.Context(), gone, client.ContainerRemoveOptions{Force: true})
			require.NoError(t, err)
			if n == changes {
				v2.Valid(t)
			} else if d := v2.Stale(t, "recreate-network").Actions[0].Description; n > 0 && !strings.Contains(d, "an earlier attempt was interrupted") {
				t.Errorf("description: %s", d)
			} else {
				v2.Apply(t)
			}
			wantAliases(t, docker, network, db, "db", db[:2])
			wantAliases(t, docker, network, cache, "cache")
			_, err = docker.VolumeInspect(t.Context(), m.memory(), client.VolumeInspectOptions{})
			assert.True(t, errdefs.IsNotFound(err), "what was remembered is still there: %v", err)
		})
	}
}

func TestServedNetworks(t *testing.T) {
	docker := dockertest.Client(t)
	var networks []typetest.Resource
	for _, config := range []object{nil, {"internal": true}, {"labels": object{"team": "web"}}} {
		networks = append(networks, resource(t, docker, config))
	}
	typetest.LivesServed(t, networks...)
}

// Before all is known a plan shows what is to be made, and says nothing of what exists.
func TestANetworkOfWhichNotAllIsKnownYet(t *testing.T) {
	docker := dockertest.Client(t)
	r := resource(t, docker, object{"labels": object{"of": object{"$unknown": true}}, "driver": object{"$unknown": true}})
	out := r.Stale(t, "create-network")
	assert.True(t, out.PlannedState["driver"] == (protocol.Unknown{}) && out.PlannedState["name"] == r.Config.(object)["name"],
		"it will be %v", out.PlannedState)
	changed(r, object{"labels": nil, "driver": nil}).Apply(t)
	r.Fails(t, "exists, and is not compared before all of its configuration is known", "state")
	changed(r, object{"name": object{"$unknown": true}}).Fails(t, "which network it is is not known yet", "state")
}

func TestNetworksKeepToTheProtocol(t *testing.T) {
	docker := dockertest.Client(t)
	protocoltest.Check(t, Type(), resource(t, docker, nil).Config, resource(t, docker, nil).Config, map[string]string{"docker": daemon.Socket})
}
