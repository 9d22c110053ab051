// Package network is the resource type deployster/network: a network of the
// Docker Engine behind the plug "docker".
//
// A network cannot be changed, only made anew. The containers on it are
// disconnected for that moment and connected again with their aliases, running
// or not.
package network

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"net/netip"
	"strings"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/daemon"
	dockernet "github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// Summary says in one line what the type is for.
const Summary = "a network of a Docker Engine"

//go:embed schema.json
var configSchema []byte

// Config is the configuration of a resource.
type Config struct {
	Name       string            `json:"name"`
	Driver     string            `json:"driver"`
	Options    map[string]string `json:"options"`
	Internal   bool              `json:"internal"`
	Attachable bool              `json:"attachable"`
	Subnet     string            `json:"subnet"`
	Gateway    string            `json:"gateway"`
	Labels     map[string]string `json:"labels"`
	Adopt      bool              `json:"adopt"`
}

// Identity says which network a resource manages, and the property of its
// configuration that says so; thing is "" when that is not known.
var Identity = daemon.Identify("network")

// Type returns the resource type.
func Type() protocol.Type[Config] { return managed.Type(daemon.Socket) }

var managed = daemon.Managed[Config, dockernet.Inspect, *manager]{
	Kind: daemon.Kind[dockernet.Inspect]{
		Name: "network",
		Ask: func(ctx context.Context, docker *client.Client, name string) (*dockernet.Inspect, error) {
			got, err := docker.NetworkInspect(ctx, name, client.NetworkInspectOptions{})
			return &got.Network, err
		},
		Mark: func(n *dockernet.Inspect) (string, map[string]string) { return n.Name, n.Labels },
	},
	Schema: configSchema, Replace: protocol.DestroyFirst, Named: func(c Config) string { return c.Name }, Adopt: func(c Config) bool { return c.Adopt }, Open: open, State: (*manager).state,
	Actions: map[string]func(*manager, context.Context) error{
		"create-network":   (*manager).create,
		"recreate-network": (*manager).recreate,
		"remove-network":   (*manager).remove,
	},
}

type job = daemon.Job[Config, dockernet.Inspect]

// manager does what one request asks for.
type manager struct {
	job
	config Config // with its defaults
	ipam   *dockernet.IPAM
}

func open(j job) (*manager, error) {
	m := &manager{job: j, config: j.Request.Config}
	m.config.Name = cmp.Or(m.config.Name, j.Request.Name)
	m.config.Driver = cmp.Or(m.config.Driver, "bridge")
	if m.config.Gateway != "" && m.config.Subnet == "" {
		return nil, fmt.Errorf("gateway %s is given without the subnet that it belongs to", m.config.Gateway)
	}
	if m.config.Subnet != "" {
		subnet, err := netip.ParsePrefix(m.config.Subnet)
		if err != nil {
			return nil, fmt.Errorf("subnet %q must be like 172.28.0.0/16", m.config.Subnet)
		}
		part := dockernet.IPAMConfig{Subnet: subnet.Masked()}
		if m.config.Gateway != "" {
			if part.Gateway, err = netip.ParseAddr(m.config.Gateway); err != nil || !subnet.Contains(part.Gateway) {
				return nil, fmt.Errorf("gateway %q must be an address within %s", m.config.Gateway, subnet)
			}
		}
		m.ipam = &dockernet.IPAM{Driver: "default", Config: []dockernet.IPAMConfig{part}}
	}
	return m, nil
}

func (m *manager) state(ctx context.Context) (protocol.StateOutput, error) {
	n, err := m.Inspect(ctx, m.config.Name)
	if err != nil {
		return protocol.StateOutput{}, err
	}
	left, err := m.remembered(ctx)
	if err != nil {
		return protocol.StateOutput{}, err
	}
	name := m.config.Name
	var found *described
	if n != nil {
		d := describe(n)
		found = &d
	}
	var do protocol.Action
	switch differs := m.differs(n, left); {
	case m.Request.Ensure == protocol.Absent && n == nil && left == nil:
		return protocol.AnswerValid(map[string]any{"name": name})
	case m.Request.Ensure == protocol.Absent:
		do = protocol.Do("remove-network", "remove network "+name)
	case n == nil && left == nil:
		do = protocol.Do("create-network", "create network "+name)
	case len(differs) > 0:
		do = protocol.DoDestroy("recreate-network", fmt.Sprintf("recreate network %s: %s", name, strings.Join(differs, ", ")))
	default:
		return protocol.AnswerValid(found)
	}
	if n == nil {
		return m.planned(protocol.AnswerStale(nil, do))
	}
	if err := m.MayChange(n); err != nil {
		return protocol.StateOutput{}, err
	}
	return m.planned(protocol.AnswerStale(found, do))
}

// planned adds to an answer what is known of the network before it is made.
func (m *manager) planned(out protocol.StateOutput, err error) (protocol.StateOutput, error) {
	if err != nil || m.Request.Ensure == protocol.Absent {
		return out, err
	}
	will := described{Name: m.config.Name, Driver: m.config.Driver, Internal: m.config.Internal, Attachable: m.config.Attachable}
	return out.Planned(will, "id", "subnet", "gateway", "options", "labels")
}

func (m *manager) differs(n *dockernet.Inspect, left []endpoint) []string {
	var differs []string
	if n != nil {
		differs = m.drift(n)
	}
	if left != nil {
		differs = append(differs, "an earlier attempt was interrupted")
	}
	return differs
}

// drift lists what of a network is not as configured.
func (m *manager) drift(n *dockernet.Inspect) []string {
	var differs []string
	note := func(what string, same bool) {
		if !same {
			differs = append(differs, what)
		}
	}
	_, ours := n.Labels[daemon.LabelManaged]
	note("driver", n.Driver == m.config.Driver)
	note("internal", n.Internal == m.config.Internal)
	note("attachable", n.Attachable == m.config.Attachable)
	note("options", sameOptions(n.Options, m.config.Options, ours))
	note("labels", daemon.SameLabels(n.Labels, m.config.Labels))
	switch {
	case m.ipam != nil:
		want := m.ipam.Config[0]
		same := len(n.IPAM.Config) == 1 && n.IPAM.Config[0].Subnet == want.Subnet
		note("subnet", same)
		note("gateway", !same || !want.Gateway.IsValid() || n.IPAM.Config[0].Gateway == want.Gateway)
	case ours: // what the engine picked, and what was asked for earlier, look alike
		note("subnet", n.Labels[labelSubnet] == "")
	}
	return differs
}

// labelSubnet remembers a subnet that was asked for.
const labelSubnet = "deployster.subnet"

// sameOptions ignores what an engine adds by itself to the networks it makes.
func sameOptions(got, want map[string]string, ours bool) bool {
	got = maps.Clone(got)
	maps.DeleteFunc(got, func(key, _ string) bool {
		_, wanted := want[key]
		return !wanted && (!ours || strings.HasPrefix(key, "com.docker.network.enable_"))
	})
	return maps.Equal(got, want)
}

// described is a network in the words of the configuration.
type described struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Driver     string            `json:"driver"`
	Internal   bool              `json:"internal"`
	Attachable bool              `json:"attachable"`
	Subnet     string            `json:"subnet,omitempty"`
	Gateway    string            `json:"gateway,omitempty"`
	Options    map[string]string `json:"options"`
	Labels     map[string]string `json:"labels"`
}

func describe(n *dockernet.Inspect) described {
	d := described{
		ID: n.ID, Name: n.Name, Driver: n.Driver, Internal: n.Internal, Attachable: n.Attachable,
		Options: n.Options, Labels: daemon.Unmarked(n.Labels),
	}
	if d.Options == nil {
		d.Options = map[string]string{}
	}
	if len(n.IPAM.Config) > 0 {
		d.Subnet = n.IPAM.Config[0].Subnet.String()
		if g := n.IPAM.Config[0].Gateway; g.IsValid() {
			d.Gateway = g.String()
		}
	}
	return d
}
