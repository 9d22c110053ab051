package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"time"

	"github.com/deployster-go/deployster/resources/internal/daemon"
)

// Config is the configuration of a resource.
type Config struct {
	Name       string            `json:"name,omitempty"`
	Image      string            `json:"image"`
	Command    []string          `json:"command,omitempty"`
	Entrypoint []string          `json:"entrypoint,omitempty"`
	Env        daemon.Variables  `json:"env,omitempty"`
	Ports      []Port            `json:"ports,omitempty"`
	Mounts     []Mount           `json:"mounts,omitempty"`
	Networks   []string          `json:"networks,omitempty"`
	Restart    string            `json:"restart,omitempty"`
	Health     *Health           `json:"health,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	User       string            `json:"user,omitempty"`
	Workdir    string            `json:"workdir,omitempty"`
	Adopt      bool              `json:"adopt,omitempty"`
}

// Port publishes a port of the container on the host.
type Port struct {
	Container uint16 `json:"container"`
	Host      uint16 `json:"host,omitempty"` // 0: the engine picks one
	Protocol  string `json:"protocol,omitempty"`
	Address   string `json:"address,omitempty"` // "": all addresses
}

// Mount shows a volume or a path of the host.
type Mount struct {
	Volume   string `json:"volume,omitempty"`
	Path     string `json:"path,omitempty"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// Health is how the engine probes the health of the container. What is
// zero is the image's, or the engine's default.
type Health struct {
	Command     []string `json:"command"`
	Interval    Duration `json:"interval,omitempty"`
	Timeout     Duration `json:"timeout,omitempty"`
	Retries     int      `json:"retries,omitempty"`
	StartPeriod Duration `json:"start_period,omitempty"`
}

// Duration is written as in "1m30s".
type Duration time.Duration

// UnmarshalJSON reads the text.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf(`a duration must be text such as "30s", not %s`, text)
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < time.Millisecond {
		return fmt.Errorf(`a duration must be at least a millisecond and like "30s" or "1m30s", not %q`, s)
	}
	*d = Duration(v)
	return nil
}

// MarshalJSON writes the text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// normal fills in the defaults and checks what the schema cannot say.
func (c Config) normal(resource string) (Config, error) {
	if c.Image == "" {
		return c, errors.New(`"image" is required`)
	}
	if c.Name == "" {
		c.Name = resource
	}
	if c.Restart == "" {
		c.Restart = "no"
	}
	if !slices.Contains([]string{"no", "always", "on-failure", "unless-stopped"}, c.Restart) {
		return c, fmt.Errorf("restart %q must be no, always, on-failure or unless-stopped", c.Restart)
	}
	if len(c.Networks) == 0 {
		c.Networks = []string{"bridge"}
	}
	for _, alone := range []string{"host", "none"} {
		if slices.Contains(c.Networks, alone) && len(c.Networks) > 1 {
			return c, fmt.Errorf("network %q cannot be combined with others", alone)
		}
	}
	c.Ports = slices.Clone(c.Ports)
	for i, p := range c.Ports {
		if p.Protocol == "" {
			c.Ports[i].Protocol = "tcp"
		}
		if !slices.Contains([]string{"tcp", "udp", "sctp"}, c.Ports[i].Protocol) || p.Container == 0 {
			return c, fmt.Errorf("ports[%d]: %d/%s is not a port", i, p.Container, c.Ports[i].Protocol)
		}
		if p.Address != "" {
			a, err := netip.ParseAddr(p.Address)
			if err != nil {
				return c, fmt.Errorf("ports[%d]: address %q must be an IP address", i, p.Address)
			}
			c.Ports[i].Address = plainAddress(a)
		}
		if slices.Contains(c.Ports[:i], c.Ports[i]) {
			return c, fmt.Errorf("ports[%d]: the same port is listed twice", i)
		}
	}
	c.Mounts = slices.Clone(c.Mounts)
	targets := map[string]bool{}
	for i := range c.Mounts {
		m := &c.Mounts[i]
		m.Target = path.Clean(m.Target)
		switch {
		case (m.Volume == "") == (m.Path == ""):
			return c, fmt.Errorf(`mounts[%d]: either "volume" or "path" must be given`, i)
		case !path.IsAbs(m.Target) || m.Target == "/":
			return c, fmt.Errorf("mounts[%d]: target %q must be an absolute path below /", i, m.Target)
		case targets[m.Target]:
			return c, fmt.Errorf("mounts[%d]: target %s is listed twice", i, m.Target)
		}
		targets[m.Target] = true
		if m.Path != "" {
			if m.Path = path.Clean(m.Path); !path.IsAbs(m.Path) {
				return c, fmt.Errorf("mounts[%d]: path %q must be absolute", i, m.Path)
			}
		}
	}
	if c.Health != nil && len(c.Health.Command) == 0 {
		return c, errors.New("health: a command is required")
	}
	return c, nil
}

// plainAddress writes an address in the one form that is compared; "" stands
// for all addresses.
func plainAddress(a netip.Addr) string {
	if a = a.Unmap(); !a.IsValid() || a.IsUnspecified() {
		return ""
	}
	return a.String()
}
