package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/resources/internal/daemon"
	"github.com/deployster-go/deployster/resources/internal/duration"
)

// Config is the configuration of a resource.
type Config struct {
	Name       string            `json:"name,omitempty"`
	Image      string            `json:"image"`
	Command    []string          `json:"command,omitempty"`
	Entrypoint []string          `json:"entrypoint,omitempty"`
	Env        daemon.Variables  `json:"env,omitempty"`
	SecretEnv  daemon.Variables  `json:"secret_env,omitempty"`
	PublicEnv  daemon.Variables  `json:"public_env,omitempty"` // as Env, which former versions took for secret
	Ports      []Port            `json:"ports,omitempty"`
	Mounts     []Mount           `json:"mounts,omitempty"`
	Networks   []string          `json:"networks,omitempty"`
	Restart    string            `json:"restart,omitempty"`
	Health     *Health           `json:"health,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	User       string            `json:"user,omitempty"`
	Workdir    string            `json:"workdir,omitempty"`
	Adopt      bool              `json:"adopt,omitempty"`

	RegistryAuth *daemon.RegistryAuth `json:"registry_auth,omitempty"` // of no part in what the container is

	content string // beginning of the id of the image, whatever its name means by now; "" is what it means
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
	v, err := duration.Parse(text, time.Millisecond, "at least a millisecond")
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

// MarshalJSON writes the text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// shownImage is how the image of a container is shown that is another than its name means.
func shownImage(name, id string) string { return fmt.Sprintf("%s (%.19s)", name, id) }

// normal fills in the defaults and checks what the schema cannot say.
func (c Config) normal(resource string) (Config, error) {
	if c.Image == "" {
		return c, errors.New(`"image" is required`)
	}
	// What ignore_changes leaves as it is comes as it was found, see shownImage.
	if name, content, found := strings.Cut(c.Image, " ("); found {
		c.Image, c.content = name, strings.TrimSuffix(content, ")")
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
	seen := map[string]string{}
	for _, of := range c.environments() {
		for _, name := range slices.Sorted(maps.Keys(of.variables)) {
			if other := seen[name]; other != "" {
				return c, fmt.Errorf("environment variable %s is in %s and in %s: one of them is enough", name, other, of.property)
			}
			seen[name] = of.property
		}
	}
	var err error
	if c.Ports, err = normalPorts(c.Ports); err != nil {
		return c, err
	}
	if c.Mounts, err = normalMounts(c.Mounts); err != nil {
		return c, err
	}
	if c.Health != nil && len(c.Health.Command) == 0 {
		return c, errors.New("health: a command is required")
	}
	return c, nil
}

// environment is a property with environment variables.
type environment struct {
	property  string
	variables daemon.Variables
	secret    bool
}

func (c Config) environments() []environment {
	return []environment{{"env", c.Env, false}, {"secret_env", c.SecretEnv, true}, {"public_env", c.PublicEnv, false}}
}

// variables are all environment variables that are asked for, and those of them whose values are
// no secrets, sorted.
func (c Config) variables() (all daemon.Variables, plain []string) {
	all = daemon.Variables{}
	for _, of := range c.environments() {
		maps.Copy(all, of.variables)
		if !of.secret {
			plain = slices.AppendSeq(plain, maps.Keys(of.variables))
		}
	}
	slices.Sort(plain)
	return all, plain
}

// normalPorts is the part of normal for ports.
func normalPorts(given []Port) ([]Port, error) {
	ports := slices.Clone(given)
	for i, p := range ports {
		if p.Protocol == "" {
			ports[i].Protocol = "tcp"
		}
		if !slices.Contains([]string{"tcp", "udp", "sctp"}, ports[i].Protocol) || p.Container == 0 {
			return nil, fmt.Errorf("ports[%d]: %d/%s is not a port", i, p.Container, ports[i].Protocol)
		}
		if p.Address != "" {
			a, err := netip.ParseAddr(p.Address)
			if err != nil {
				return nil, fmt.Errorf("ports[%d]: address %q must be an IP address", i, p.Address)
			}
			ports[i].Address = plainAddress(a)
		}
		if slices.Contains(ports[:i], ports[i]) {
			return nil, fmt.Errorf("ports[%d]: the same port is listed twice", i)
		}
	}
	return ports, nil
}

// normalMounts is the part of normal for mounts.
func normalMounts(given []Mount) ([]Mount, error) {
	mounts := slices.Clone(given)
	targets := map[string]bool{}
	for i := range mounts {
		m := &mounts[i]
		m.Target = path.Clean(m.Target)
		switch {
		case (m.Volume == "") == (m.Path == ""):
			return nil, fmt.Errorf(`mounts[%d]: either "volume" or "path" must be given`, i)
		case !path.IsAbs(m.Target) || m.Target == "/":
			return nil, fmt.Errorf("mounts[%d]: target %q must be an absolute path below /", i, m.Target)
		case targets[m.Target]:
			return nil, fmt.Errorf("mounts[%d]: target %s is listed twice", i, m.Target)
		}
		targets[m.Target] = true
		if m.Path != "" {
			if m.Path = path.Clean(m.Path); !path.IsAbs(m.Path) {
				return nil, fmt.Errorf("mounts[%d]: path %q must be absolute", i, m.Path)
			}
		}
	}
	return mounts, nil
}

// plainAddress writes an address in the one form that is compared; "" stands
// for all addresses.
func plainAddress(a netip.Addr) string {
	if a = a.Unmap(); !a.IsValid() || a.IsUnspecified() {
		return ""
	}
	return a.String()
}
