package container

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	imagespec "github.com/moby/docker-image-spec/specs-go/v1"
	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/deployster-go/deployster/resources/internal/daemon"
)

// drift is what of a container is not as configured.
type drift struct {
	recreate []string       // what needs a new container
	update   []string       // what can be changed in place
	found    map[string]any // the configuration, with what was found where that differs
}

func (d *drift) differs(key string, found any) {
	d.recreate = append(d.recreate, key)
	d.found[key] = found
}

func (m *manager) compare(ctx context.Context, c *dockercontainer.InspectResponse) (*drift, error) {
	d := &drift{found: map[string]any{}}
	text, err := json.Marshal(m.config)
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration: %w", err)
	}
	if err := json.Unmarshal(text, &d.found); err != nil {
		return nil, fmt.Errorf("decoding the configuration: %w", err)
	}
	d.found["running"], d.found["healthy"], d.found["restarts"] = c.State.Running, healthy(c), c.RestartCount
	if err := m.compareImage(ctx, c, d); err != nil {
		return nil, err
	}
	base, err := m.imageDefaults(ctx, c.Image)
	if err != nil {
		return nil, err
	}
	m.compareProcess(c, base, d)
	m.compareHost(c, base, d)
	if err := m.compareNetworks(ctx, c, d); err != nil {
		return nil, err
	}
	if recorded := c.Config.Labels[daemon.LabelSpec]; recorded != "" && len(d.recreate) == 0 {
		hash, err := m.specHash()
		if err != nil {
			return nil, err
		}
		if hash != recorded {
			d.recreate = append(d.recreate, "configuration")
		}
	}
	return d, nil
}

// compareImage finds a tag that points to other content than the container
// runs. A tag that the engine no longer holds says nothing.
func (m *manager) compareImage(ctx context.Context, c *dockercontainer.InspectResponse, d *drift) error {
	if m.config.content != "" && c.Config.Image == m.config.Image && strings.HasPrefix(c.Image, m.config.content) {
		return nil
	}
	image, err := m.Docker.ImageInspect(ctx, m.config.Image)
	switch {
	case errdefs.IsNotFound(err):
		if c.Config.Image != m.config.Image {
			d.differs("image", c.Config.Image)
		}
	case err != nil:
		return fmt.Errorf("inspecting image %s: %w", m.config.Image, err)
	case image.ID != c.Image:
		d.differs("image", shownImage(c.Config.Image, c.Image))
	}
	return nil
}

// imageDefaults is the configuration of the image that a container was made
// from. When that image is gone nothing is known of it.
func (m *manager) imageDefaults(ctx context.Context, id string) (*imagespec.DockerOCIImageConfig, error) {
	image, err := m.Docker.ImageInspect(ctx, id)
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("inspecting the image of the container: %w", err)
	}
	if image.Config == nil {
		return &imagespec.DockerOCIImageConfig{}, nil
	}
	return image.Config, nil
}

// compareProcess compares what runs inside. base is nil when the image's
// defaults are not known: then only what is asked for is compared.
func (m *manager) compareProcess(c *dockercontainer.InspectResponse, base *imagespec.DockerOCIImageConfig, d *drift) {
	known := base != nil
	if !known {
		base = &imagespec.DockerOCIImageConfig{}
	}
	want := m.config
	command, entrypoint := want.Command, want.Entrypoint
	if len(entrypoint) == 0 {
		entrypoint = base.Entrypoint
		if len(command) == 0 {
			command = base.Cmd
		}
	}
	if (known || len(want.Entrypoint) > 0) && !slices.Equal(c.Config.Entrypoint, entrypoint) {
		d.differs("entrypoint", c.Config.Entrypoint)
	}
	if (known || len(want.Command) > 0 || len(want.Entrypoint) > 0) && !slices.Equal(c.Config.Cmd, command) {
		d.differs("command", c.Config.Cmd)
	}
	if user := cmp.Or(want.User, base.User); (known || user != "") && c.Config.User != user {
		d.differs("user", c.Config.User)
	}
	if dir := cmp.Or(want.Workdir, base.WorkingDir); (known || dir != "") && cleanDir(c.Config.WorkingDir) != cleanDir(dir) {
		d.differs("workdir", c.Config.WorkingDir)
	}
	m.compareEnv(c, base.Env, known, d)
	m.compareLabels(c, base.Labels, known, d)
	m.compareHealth(c, base.Healthcheck, known, d)
}

func cleanDir(dir string) string {
	if dir == "" {
		return "/"
	}
	return path.Clean(dir)
}

// compareEnv shows a value that it found only where it is no secret, neither by now nor when the
// container was made: one that was made by a version to which all of env was secret does not say so.
func (m *manager) compareEnv(c *dockercontainer.InspectResponse, base []string, known bool, d *drift) {
	all, plain := m.config.variables()
	want, got := variables(base), variables(c.Config.Env)
	maps.Copy(want, all)
	var shown []string
	if err := json.Unmarshal([]byte(c.Config.Labels[daemon.LabelPlainEnv]), &shown); err != nil {
		shown = nil // there is no such label, or it is not ours
	}
	found := map[string]string{}
	var names []string
	for name, value := range got {
		w, asked := want[name]
		switch {
		case asked && w == value:
			found[name] = value
		case !asked && !known:
		default:
			found[name] = "(another value)"
			if slices.Contains(plain, name) && slices.Contains(shown, name) {
				found[name] = value
			}
			names = append(names, name)
		}
	}
	for name := range want {
		if _, there := got[name]; !there {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	d.recreate = append(d.recreate, "env "+strings.Join(names, " "))
	for _, of := range m.config.environments() {
		in := map[string]any{}
		for name, value := range found {
			_, here := of.variables[name]
			_, asked := all[name]
			if here || !asked && of.property == "env" && value != want[name] {
				in[name] = value
			}
		}
		if len(of.variables) > 0 || of.property == "env" {
			d.found[of.property] = in
		}
	}
}

func variables(list []string) map[string]string {
	all := map[string]string{}
	for _, one := range list {
		name, value, _ := strings.Cut(one, "=")
		all[name] = value
	}
	return all
}

func (m *manager) compareLabels(c *dockercontainer.InspectResponse, base map[string]string, known bool, d *drift) {
	want := maps.Clone(base)
	if want == nil {
		want = map[string]string{}
	}
	maps.Copy(want, m.config.Labels)
	got := maps.Clone(c.Config.Labels)
	if !known {
		maps.DeleteFunc(got, func(key, _ string) bool {
			_, asked := want[key]
			return !asked && !strings.HasPrefix(key, "deployster.")
		})
	}
	if !daemon.SameLabels(got, want) {
		maps.DeleteFunc(got, func(key, _ string) bool { return strings.HasPrefix(key, "deployster.") })
		d.differs("labels", got)
	}
}

func (m *manager) compareHealth(c *dockercontainer.InspectResponse, base *imagespec.HealthcheckConfig, known bool, d *drift) {
	want := m.config.Health.spec()
	if want == nil {
		if !known {
			return
		}
		want = base
	} else if base != nil { // the engine fills what is left open from the image
		want.Interval = cmp.Or(want.Interval, base.Interval)
		want.Timeout = cmp.Or(want.Timeout, base.Timeout)
		want.StartPeriod = cmp.Or(want.StartPeriod, base.StartPeriod)
		want.Retries = cmp.Or(want.Retries, base.Retries)
	}
	got := c.Config.Healthcheck
	if got != nil && len(got.Test) == 0 {
		got = nil
	}
	if want != nil && len(want.Test) == 0 {
		want = nil
	}
	if !reflect.DeepEqual(got, want) {
		var found any
		if got != nil {
			found = Health{
				Command: got.Test[min(1, len(got.Test)):], Interval: Duration(got.Interval), Timeout: Duration(got.Timeout),
				Retries: got.Retries, StartPeriod: Duration(got.StartPeriod),
			}
		}
		d.differs("health", found)
	}
}

// compareHost compares what of the host the container uses.
func (m *manager) compareHost(c *dockercontainer.InspectResponse, base *imagespec.DockerOCIImageConfig, d *drift) {
	if got := portList(c.HostConfig.PortBindings); !slices.Equal(got, sortedPorts(m.config.Ports)) {
		d.differs("ports", got)
	}
	got := []Mount{}
	for _, p := range c.Mounts {
		one := Mount{Target: path.Clean(p.Destination), ReadOnly: !p.RW}
		switch p.Type {
		case mount.TypeVolume:
			one.Volume = p.Name
		case mount.TypeBind:
			one.Path = path.Clean(p.Source)
		default:
			one.Path = string(p.Type)
		}
		if !slices.ContainsFunc(m.config.Mounts, func(w Mount) bool { return w.Target == one.Target }) && p.Type == mount.TypeVolume {
			// The volumes that the image declares are the image's business.
			if base == nil {
				continue
			}
			if _, declared := base.Volumes[p.Destination]; declared {
				continue
			}
		}
		got = append(got, one)
	}
	if !slices.Equal(sortedMounts(got), sortedMounts(m.config.Mounts)) {
		d.differs("mounts", got)
	}
	policy := c.HostConfig.RestartPolicy
	if restart := cmp.Or(string(policy.Name), "no"); restart != m.config.Restart || policy.MaximumRetryCount != 0 {
		d.update = append(d.update, "restart")
		d.found["restart"] = restart
		if policy.MaximumRetryCount != 0 {
			d.found["restart"] = fmt.Sprintf("%s:%d", restart, policy.MaximumRetryCount)
		}
	}
}

func sortedPorts(ports []Port) []Port {
	return slices.SortedFunc(slices.Values(ports), func(a, b Port) int {
		return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.Protocol, b.Protocol),
			cmp.Compare(a.Host, b.Host), cmp.Compare(a.Address, b.Address))
	})
}

func sortedMounts(mounts []Mount) []Mount {
	return slices.SortedFunc(slices.Values(mounts), func(a, b Mount) int { return cmp.Compare(a.Target, b.Target) })
}
