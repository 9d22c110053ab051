// Package volume is the resource type deployster/volume: a volume of the
// Docker Engine behind the plug "docker".
//
// A volume cannot be changed, and it holds data. So one that is not as
// configured is an error that says what differs; only with "recreate: true" is
// it deleted, with all that is in it, and made anew.
package volume

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"strings"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/daemon"
	dockervolume "github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"
)

// Summary says in one line what the type is for.
const Summary = "a volume of a Docker Engine; its data is never deleted unasked"

//go:embed schema.json
var configSchema []byte

// Config is the configuration of a resource.
type Config struct {
	Name     string            `json:"name"`
	Driver   string            `json:"driver"`
	Options  map[string]string `json:"options"`
	Labels   map[string]string `json:"labels"`
	Adopt    bool              `json:"adopt"`
	Recreate bool              `json:"recreate"`
}

// Identity says which volume a resource manages, and the property of its
// configuration that says so; thing is "" when that is not known.
var Identity = daemon.Identify("volume")

// Type returns the resource type.
func Type() protocol.Type[Config] { return managed.Type(daemon.Socket) }

var managed = daemon.Managed[Config, dockervolume.Volume, *manager]{
	Kind: daemon.Kind[dockervolume.Volume]{
		Name: "volume",
		Ask: func(ctx context.Context, docker *client.Client, name string) (*dockervolume.Volume, error) {
			got, err := docker.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
			return &got.Volume, err
		},
		Mark: func(v *dockervolume.Volume) (string, map[string]string) { return v.Name, v.Labels },
	},
	Schema: configSchema, Replace: protocol.CreateFirst, Named: func(c Config) string { return c.Name }, Adopt: func(c Config) bool { return c.Adopt }, Open: open, State: (*manager).state,
	Actions: map[string]func(*manager, context.Context) error{
		"create-volume":   (*manager).create,
		"recreate-volume": (*manager).recreate,
		"remove-volume":   (*manager).remove,
	},
}

type job = daemon.Job[Config, dockervolume.Volume]

// manager does what one request asks for.
type manager struct {
	job
	config Config // with its defaults
}

func open(j job) (*manager, error) {
	m := &manager{job: j, config: j.Request.Config}
	m.config.Name = cmp.Or(m.config.Name, j.Request.Name)
	m.config.Driver = cmp.Or(m.config.Driver, "local")
	return m, nil
}

func (m *manager) state(ctx context.Context) (protocol.StateOutput, error) {
	v, err := m.Inspect(ctx, m.config.Name)
	if err != nil {
		return protocol.StateOutput{}, err
	}
	name := m.config.Name
	if m.Request.Ensure == protocol.Absent {
		if v == nil {
			return protocol.AnswerValid(map[string]any{"name": name})
		}
		if err := m.MayChange(v); err != nil {
			return protocol.StateOutput{}, err
		}
		return protocol.AnswerStale(describe(v), protocol.Do("remove-volume", "remove volume "+name+" and the data in it"))
	}
	if v == nil {
		out, err := protocol.AnswerStale(nil, protocol.Do("create-volume", "create volume "+name))
		if err != nil {
			return out, err
		}
		return out.Planned(described{Name: name, Driver: m.config.Driver}, "mountpoint", "options", "labels")
	}
	differs := m.drift(v)
	if len(differs) == 0 {
		return protocol.AnswerValid(describe(v))
	}
	if err := m.MayChange(v); err != nil {
		return protocol.StateOutput{}, err
	}
	if !m.config.Recreate {
		return protocol.StateOutput{}, fmt.Errorf("volume %q is not as configured (%s), and changing it would delete its data; "+
			"change the configuration, or set \"recreate: true\" to lose the data", name, strings.Join(differs, "; "))
	}
	return protocol.AnswerStale(describe(v), protocol.DoDestroy("recreate-volume",
		fmt.Sprintf("delete volume %s with its data and make it anew: %s", name, strings.Join(differs, "; "))))
}

// drift lists what of a volume is not as configured.
func (m *manager) drift(v *dockervolume.Volume) []string {
	var differs []string
	if v.Driver != m.config.Driver {
		differs = append(differs, fmt.Sprintf("driver is %s, not %s", v.Driver, m.config.Driver))
	}
	_, ours := v.Labels[daemon.LabelManaged]
	if (ours || len(m.config.Options) > 0) && !maps.Equal(v.Options, m.config.Options) {
		differs = append(differs, "options differ")
	}
	if !daemon.SameLabels(v.Labels, m.config.Labels) {
		differs = append(differs, "labels differ")
	}
	return differs
}

func (m *manager) create(ctx context.Context) error {
	v, err := m.Find(ctx, m.config.Name)
	if err != nil || v != nil {
		return err // it is there already: an earlier attempt was interrupted
	}
	_, err = m.Docker.VolumeCreate(ctx, client.VolumeCreateOptions{
		Name: m.config.Name, Driver: m.config.Driver, DriverOpts: m.config.Options,
		Labels: m.Owner.Labels(m.config.Labels),
	})
	if err != nil {
		return fmt.Errorf("creating volume %s: %w", m.config.Name, err)
	}
	m.Request.Sayf("created volume %s", m.config.Name)
	return nil
}

func (m *manager) recreate(ctx context.Context) error {
	if !m.config.Recreate {
		return fmt.Errorf("volume %q holds data; \"recreate: true\" is missing in its configuration", m.config.Name)
	}
	v, err := m.Find(ctx, m.config.Name)
	if err != nil {
		return err
	}
	if v != nil && len(m.drift(v)) == 0 {
		return nil // made anew already: an earlier attempt was interrupted
	}
	if err := m.remove(ctx); err != nil {
		return err
	}
	return m.create(ctx)
}

func (m *manager) remove(ctx context.Context) error {
	v, err := m.Find(ctx, m.config.Name)
	if err != nil || v == nil {
		return err
	}
	list, err := m.Docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("volume", v.Name)})
	if err != nil {
		return fmt.Errorf("listing the containers that use volume %s: %w", v.Name, err)
	}
	var users []string
	for _, c := range list.Items {
		users = append(users, strings.TrimPrefix(strings.Join(c.Names, ","), "/"))
	}
	if len(users) > 0 {
		return fmt.Errorf("volume %s is used by %s; remove them first", v.Name, strings.Join(users, ", "))
	}
	if _, err := m.Docker.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{}); err != nil {
		return fmt.Errorf("removing volume %s: %w", v.Name, err)
	}
	m.Request.Sayf("removed volume %s", v.Name)
	return nil
}

// described is a volume in the words of the configuration.
type described struct {
	Name       string            `json:"name"`
	Driver     string            `json:"driver"`
	Mountpoint string            `json:"mountpoint"`
	Options    map[string]string `json:"options"`
	Labels     map[string]string `json:"labels"`
}

func describe(v *dockervolume.Volume) described {
	d := described{Name: v.Name, Driver: v.Driver, Mountpoint: v.Mountpoint, Options: v.Options, Labels: daemon.Unmarked(v.Labels)}
	if d.Options == nil {
		d.Options = map[string]string{}
	}
	return d
}
