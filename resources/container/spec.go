package container

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"time"

	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	dockernet "github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/resources/internal/daemon"
)

// specHash identifies what was asked for in all that needs a new container.
// Members that are absent do not count, so that a new version that knows more
// of them leaves existing containers alone. That a variable is or is not a secret makes no other
// container of it either.
func (m *manager) specHash() (string, error) {
	c := m.config
	c.Name, c.Image, c.Networks, c.Restart, c.Adopt, c.RegistryAuth = "", "", nil, "", false, nil
	c.Env, c.SecretEnv = maps.Clone(c.Env), nil
	for name, value := range m.config.SecretEnv {
		if c.Env == nil {
			c.Env = daemon.Variables{}
		}
		c.Env[name] = value
	}
	c.Ports, c.Mounts = sortedPorts(c.Ports), sortedMounts(c.Mounts)
	text, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encoding the configuration: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// wanted is the container as the engine is asked to make it, on its first
// network only.
func (m *manager) wanted(name string) (client.ContainerCreateOptions, error) {
	c := m.config
	hash, err := m.specHash()
	if err != nil {
		return client.ContainerCreateOptions{}, err
	}
	labels := m.Owner.Labels(c.Labels)
	labels[daemon.LabelSpec] = hash
	env, plain := c.variables()
	if len(plain) > 0 {
		names, err := json.Marshal(plain)
		if err != nil {
			return client.ContainerCreateOptions{}, fmt.Errorf("encoding names of environment variables: %w", err)
		}
		labels[daemon.LabelPlainEnv] = string(names)
	}
	exposed := dockernet.PortSet{}
	for port := range portMap(c.Ports) {
		exposed[port] = struct{}{}
	}
	host := &dockercontainer.HostConfig{
		NetworkMode:   dockercontainer.NetworkMode(c.Networks[0]),
		PortBindings:  portMap(c.Ports),
		RestartPolicy: dockercontainer.RestartPolicy{Name: dockercontainer.RestartPolicyMode(c.Restart)},
	}
	for _, w := range c.Mounts {
		one := mount.Mount{Type: mount.TypeVolume, Source: w.Volume, Target: w.Target, ReadOnly: w.ReadOnly}
		if w.Path != "" {
			one.Type, one.Source = mount.TypeBind, w.Path
		}
		host.Mounts = append(host.Mounts, one)
	}
	return client.ContainerCreateOptions{
		Name: name,
		Config: &dockercontainer.Config{
			Image: c.Image, Cmd: c.Command, Entrypoint: c.Entrypoint, Env: env.List(), Labels: labels,
			User: c.User, WorkingDir: c.Workdir, ExposedPorts: exposed, Healthcheck: c.Health.spec(),
		},
		HostConfig: host,
	}, nil
}

func (h *Health) spec() *dockercontainer.HealthConfig {
	if h == nil {
		return nil
	}
	return &dockercontainer.HealthConfig{
		Test: append([]string{"CMD"}, h.Command...), Retries: h.Retries,
		Interval: time.Duration(h.Interval), Timeout: time.Duration(h.Timeout), StartPeriod: time.Duration(h.StartPeriod),
	}
}

// portMap is the ports in the engine's form. The configuration was checked.
func portMap(ports []Port) dockernet.PortMap {
	all := dockernet.PortMap{}
	for _, p := range ports {
		port, _ := dockernet.PortFrom(p.Container, dockernet.IPProtocol(p.Protocol))
		var binding dockernet.PortBinding
		if p.Host != 0 {
			binding.HostPort = strconv.Itoa(int(p.Host))
		}
		if a, err := netip.ParseAddr(p.Address); err == nil {
			binding.HostIP = a
		}
		all[port] = append(all[port], binding)
	}
	return all
}

// portList is the configuration's form of portMap's.
func portList(all dockernet.PortMap) []Port {
	var ports []Port
	for port, bindings := range all {
		for _, b := range bindings {
			p := Port{Container: port.Num(), Protocol: string(port.Proto())}
			if n, err := strconv.ParseUint(b.HostPort, 10, 16); err == nil {
				p.Host = uint16(n)
			}
			p.Address = plainAddress(b.HostIP)
			ports = append(ports, p)
		}
	}
	return sortedPorts(ports)
}
