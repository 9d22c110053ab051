package container

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/resources/internal/dockertest"
)

func TestWhatBelongsToAnotherResourceIsLeftAlone(t *testing.T) {
	docker := dockertest.Client(t)
	image := dockertest.Image(t, docker, v1.Config{Cmd: []string{"serve"}})
	a := newBox(t, docker, object{"image": image})
	a.Workspace = "/projects/a"
	a.Apply(t)
	id := a.inspect(t).ID

	namesake, elsewhere := a, a
	namesake.Name, elsewhere.Workspace = "front", "/projects/b"
	const belongs = "belongs to resource web of /projects/a; give another name"
	namesake.Fails(t, belongs, "state")
	elsewhere.Valid(t) // another checkout of the same, which finds all as it should be
	other := elsewhere.with(object{"user": "1"})
	other.Fails(t, belongs, "state")
	for _, r := range []box{namesake, other} {
		r.Fails(t, belongs, "recreate-container")
		r.Fails(t, belongs, "restart-container")
		r.Gone().Fails(t, belongs, "state")
		r.Gone().Fails(t, belongs, "remove-container")
	}
	assert.Equal(t, id, a.inspect(t).ID, "the container was replaced")
	other.with(object{"adopt": true}).Apply(t)
	other.Valid(t) // it is theirs now
	a.Gone().Fails(t, "belongs to resource web of /projects/b", "remove-container")
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
		n, err := docker.NetworkInspect(t.Context(), name, client.NetworkInspectOptions{})
		require.NoError(t, err)
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
