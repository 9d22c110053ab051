package volume

import (
	"context"
	"maps"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/resources/internal/daemon"
	"github.com/deployster-go/deployster/resources/internal/dockertest"
	"github.com/deployster-go/deployster/resources/internal/protocoltest"
	"github.com/deployster-go/deployster/resources/internal/typetest"
)

type object = map[string]any

func resource(t *testing.T, docker *client.Client, config object) typetest.Resource {
	config = maps.Clone(config)
	if config == nil {
		config = object{}
	}
	name := dockertest.Name("vol")
	config["name"] = name
	t.Cleanup(func() {
		_, err := docker.VolumeRemove(context.WithoutCancel(t.Context()), name, client.VolumeRemoveOptions{Force: true})
		assert.NoError(t, err, "removing %s: %v", name, err)
	})
	return typetest.Resource{Type: Type(), Name: "data", Config: config}
}

func changed(r typetest.Resource, key string, value any) typetest.Resource {
	config := maps.Clone(r.Config.(object))
	config[key] = value
	return r.With(config)
}

func TestLifeOfAVolume(t *testing.T) {
	docker := dockertest.Client(t)
	r := resource(t, docker, object{"labels": object{"team": "db"}})
	r.Stale(t, "create-volume")
	state, _ := r.Apply(t)
	assert.True(t, state["driver"] == "local" && state["mountpoint"] != "" && state["labels"].(object)["team"] == "db", "state: %v", state)
	r.Gone().Stale(t, "remove-volume")
	r.Gone().Apply(t)
	r.Stale(t, "create-volume")
}

func TestDataIsNeverDeletedUnasked(t *testing.T) {
	docker := dockertest.Client(t)
	r := resource(t, docker, object{
		"labels":  object{"v": "1"},
		"options": object{"type": "tmpfs", "device": "tmpfs", "o": "size=1m"},
	})
	r.Apply(t)
	for want, other := range map[string]typetest.Resource{
		"labels differ":              changed(r, "labels", object{"v": "2"}),
		"options differ":             changed(r, "options", object{"type": "tmpfs", "device": "tmpfs", "o": "size=2m"}),
		"driver is local, not other": changed(r, "driver", "other"),
	} {
		other.Fails(t, want, "state")
		other.Fails(t, `"recreate: true" is missing`, "recreate-volume")
	}
	r.Valid(t)

	v2 := changed(changed(r, "labels", object{"v": "2"}), "recreate", true)
	assert.Contains(t, v2.Stale(t, "recreate-volume").Actions[0].Description, "with its data", "description")
	state, _ := v2.Apply(t)
	assert.True(t, state["labels"].(object)["v"] == "2", "state: %v", state)
}

func TestVolumeInUse(t *testing.T) {
	docker := dockertest.Client(t)
	r := resource(t, docker, nil)
	r.Apply(t)
	image := dockertest.Image(t, docker, v1.Config{})
	name := dockertest.Name("user")
	c, err := docker.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Name: name, Config: &container.Config{Image: image},
		HostConfig: &container.HostConfig{Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: r.Config.(object)["name"].(string), Target: "/data"}}},
	})
	require.NoError(t, err)
	r.Gone().Fails(t, "is used by "+name, "remove-volume")
	must.Get(docker.ContainerRemove(t.Context(), c.ID, client.ContainerRemoveOptions{Force: true}))(t)
	r.Gone().Apply(t)
}

func TestWhatSomebodyElseMadeIsLeftAlone(t *testing.T) {
	docker := dockertest.Client(t)
	r := resource(t, docker, nil)
	must.Get(docker.VolumeCreate(t.Context(), client.VolumeCreateOptions{Name: r.Config.(object)["name"].(string)}))(t)
	r.Fails(t, "was not made by Deployster", "state")
	r.Gone().Fails(t, "was not made by Deployster", "remove-volume")
	changed(r, "adopt", true).Valid(t)
}

func TestWhatBelongsToAnotherResourceIsLeftAlone(t *testing.T) {
	typetest.BelongsToOne(t, resource(t, dockertest.Client(t), object{"recreate": true}), changed, "labels", object{"v": "2"}, "recreate-volume", "remove-volume")
}

func TestServedVolumes(t *testing.T) {
	docker := dockertest.Client(t)
	var volumes []typetest.Resource
	for _, config := range []object{nil, {"labels": object{"team": "db"}}, {"options": object{"type": "tmpfs", "device": "tmpfs", "o": "size=1m"}}} {
		volumes = append(volumes, resource(t, docker, config))
	}
	typetest.LivesServed(t, volumes...)
}

func TestVolumesKeepToTheProtocol(t *testing.T) {
	docker := dockertest.Client(t)
	protocoltest.Check(t, Type(), resource(t, docker, nil).Config, resource(t, docker, nil).Config, map[string]string{"docker": daemon.Socket})
}
