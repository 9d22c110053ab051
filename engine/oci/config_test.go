package oci

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/must"
)

const someID = "0123456789abcdef0123456789abcdef"

func TestConfiguration(t *testing.T) {
	image := v1.Config{Entrypoint: []string{"/bin/tool", "-x"}, Cmd: []string{"default"}, Env: []string{"A=image", "B=image"}, WorkingDir: "/image/"}
	for _, c := range []struct {
		name  string
		spec  engine.Spec
		host  host
		shows func(specs.Spec) any
		want  string
	}{
		{"the image's own command", engine.Spec{}, host{}, args, "/bin/tool -x default"},
		{"arguments replace the command", engine.Spec{Args: []string{"a"}}, host{}, args, "/bin/tool -x a"},
		{"no arguments replace it, too", engine.Spec{Args: []string{}}, host{}, args, "/bin/tool -x"},
		{"an entrypoint drops it", engine.Spec{Entrypoint: "/other"}, host{}, args, "/other"},
		{"later variables win, and one without a value is taken away", engine.Spec{Env: []string{"A=run", "B", "C", "=x"}}, host{hostname: "here"}, env,
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOSTNAME=here A=run"},
		{"the run's PATH", engine.Spec{Env: []string{"PATH=/mine"}}, host{hostname: "here"}, env, "PATH=/mine HOSTNAME=here A=image B=image"},
		{"the image's directory", engine.Spec{}, host{}, cwd, "/image"},
		{"the run's directory", engine.Spec{WorkDir: "/run/../there"}, host{}, cwd, "/there"},
		{"the host's network has the host's name", engine.Spec{}, host{hostname: "here"}, hostname, "here"},
		{"a network of its own has another", engine.Spec{Network: "none"}, host{hostname: "here"}, hostname, "0123456789ab"},
		{"outer mounts come first", engine.Spec{Mounts: []engine.Mount{{Source: "/s", Target: "/a/b/c"}, {Source: "/s", Target: "/a"}, {Source: "/s", Target: "/a/b/", ReadOnly: true}}}, host{}, binds, "/a /a/b:ro,rro /a/b/c"},
		{"nothing is mounted below a file", engine.Spec{Mounts: []engine.Mount{{Source: "/s/f", Target: "/f", ReadOnly: true}, {Source: "/s/f", Target: "/g"}}}, host{files: []string{"/s/f"}}, binds, "/f:ro /g"},
		{"a runtime that has no other read-only mounts", engine.Spec{Mounts: []engine.Mount{{Source: "/s", Target: "/f", ReadOnly: true}}}, host{flat: true}, binds, "/f:ro"},
		{"a mount on /tmp is there alone", engine.Spec{Mounts: []engine.Mount{{Source: "/s", Target: "/tmp/"}}}, host{}, tmp, "bind"},
		{"else /tmp is fresh", engine.Spec{}, host{}, tmp, "tmpfs"},
		{"bounds by default", engine.Spec{}, host{bounded: true, swap: true}, limits, "memory 2147483648 with swap 2147483648 pids 256"},
		{"bounds as asked for", engine.Spec{Memory: 5, Pids: 6}, host{bounded: true, swap: true}, limits, "memory 5 with swap 5 pids 6"},
		{"swap that cannot be counted", engine.Spec{}, host{bounded: true}, limits, "memory 2147483648 pids 256"},
		{"no bounds without control groups", engine.Spec{Memory: 5}, host{}, limits, "none"},
		{"nor without root", engine.Spec{Memory: 5}, host{rootless: true}, limits, "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := must.Get(configure(someID, c.spec, image, c.host))(t)
			got := c.shows(config)
			assert.True(t, got == c.want, "got  %v\nwant %s", got, c.want)
		})
	}
}

func args(c specs.Spec) any     { return strings.Join(c.Process.Args, " ") }
func env(c specs.Spec) any      { return strings.Join(c.Process.Env, " ") }
func cwd(c specs.Spec) any      { return c.Process.Cwd }
func hostname(c specs.Spec) any { return c.Hostname }

func binds(c specs.Spec) any {
	var found []string
	for _, m := range c.Mounts {
		if m.Type != "bind" {
			continue
		}
		mode := ""
		if special := m.Options[2:]; len(special) > 0 { // after rbind and rprivate
			mode = ":" + strings.Join(special, ",")
		}
		found = append(found, m.Destination+mode)
	}
	return strings.Join(found, " ")
}

func tmp(c specs.Spec) any {
	var found []string
	for _, m := range c.Mounts {
		if m.Destination == "/tmp" {
			found = append(found, m.Type)
		}
	}
	return strings.Join(found, " ")
}

func limits(c specs.Spec) any {
	r := c.Linux.Resources
	if r == nil {
		return "none"
	}
	text := "memory " + number(r.Memory.Limit)
	if r.Memory.Swap != nil {
		text += " with swap " + number(r.Memory.Swap)
	}
	return text + " pids " + number(r.Pids.Limit)
}

func number(n *int64) string { return strconv.FormatInt(*n, 10) }

func TestConfigurationIsRefused(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	mount := func(source, target string) engine.Spec {
		return engine.Spec{Mounts: []engine.Mount{{Source: "/s", Target: "/t"}, {Source: source, Target: target}}}
	}
	for _, c := range []struct {
		name  string
		spec  engine.Spec
		image v1.Config
		says  string
	}{
		{"nothing to execute", engine.Spec{}, v1.Config{}, "neither entrypoint nor command"},
		{"a network that there is not", engine.Spec{Network: "bridge"}, v1.Config{Cmd: []string{"x"}}, `network "bridge": without a daemon there are the networks host and none`},
		{"an argument that is too long", engine.Spec{Args: []string{"x", long}}, v1.Config{}, "argument 1 is too long"},
		{"a variable that is too long", engine.Spec{Env: []string{"LONG=" + long}}, v1.Config{Cmd: []string{"x"}}, "variable LONG is too long"},
		{"a relative directory", engine.Spec{WorkDir: "here"}, v1.Config{Cmd: []string{"x"}}, `working directory "here" is not an absolute path`},
		{"an image that wants out", engine.Spec{}, v1.Config{Cmd: []string{"x"}, WorkingDir: "/x/../proc/self/fd/7"}, "/proc"},
		{"a relative mount source", mount("here", "/x"), v1.Config{Cmd: []string{"x"}}, `mount source "here" is not an absolute path`},
		{"a relative mount target", mount("/s", "here"), v1.Config{Cmd: []string{"x"}}, `mount target "here" is not an absolute path`},
		{"a mount on the root", mount("/s", "/x/.."), v1.Config{Cmd: []string{"x"}}, "cannot be mounted on /"},
		{"two mounts on one target", mount("/s", "/t/"), v1.Config{Cmd: []string{"x"}}, "/t is there twice"},
		{"less than no memory", engine.Spec{Memory: -1}, v1.Config{Cmd: []string{"x"}}, "cannot be negative"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := configure(someID, c.spec, c.image, host{})
			assert.True(t, err != nil && strings.Contains(err.Error(), c.says) && len(err.Error()) <= 1000, "%v, want %q", err, c.says)
		})
	}
}

func TestEveryContainerIsConfined(t *testing.T) {
	config := must.Get(configure(someID, engine.Spec{Args: []string{"x"}}, v1.Config{}, host{bounded: true, seccomp: &specs.LinuxSeccomp{}}))(t)
	assert.True(t, config.Process.NoNewPrivileges && config.Linux.Seccomp != nil &&
		config.Linux.CgroupsPath == "/deployster-"+someID, "%+v %+v", config.Process, config.Linux)
	assert.True(t, slices.Equal(config.Linux.Resources.Devices, []specs.LinuxDeviceCgroup{{Access: "rwm"}}),
		"devices: %+v", config.Linux.Resources.Devices)
	for _, name := range []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"} {
		assert.True(t, slices.Contains(config.Linux.MaskedPaths, name), "containers see %s", name)
	}
	for _, name := range []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"} {
		assert.True(t, slices.Contains(config.Linux.ReadonlyPaths, name), "containers may write to %s", name)
	}
	for _, powerful := range []string{"CAP_SYS_ADMIN", "CAP_NET_RAW", "CAP_MKNOD", "CAP_SYS_PTRACE", "CAP_NET_ADMIN"} {
		assert.True(t, !slices.Contains(config.Process.Capabilities.Bounding, powerful), "containers may have %s", powerful)
	}
}
