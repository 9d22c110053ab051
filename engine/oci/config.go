package oci

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/deployster-go/deployster/engine"
)

// Defaults of a run's bounds.
const (
	defaultMemory = 2 << 30
	defaultPids   = 256
)

// defaultPath is the PATH of an image that has none, as with Docker.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// What of /proc and /sys shows, or changes, the machine rather than the
// container.
var (
	masked = []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys",
		"/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
		"/sys/devices/virtual/powercap", "/sys/firmware",
	}
	unchanged = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// host is what a container's configuration takes from the machine.
type host struct {
	rootless bool
	bounded  bool // by control groups
	swap     bool // bounds may count swap
	hostname string
	flat     bool     // the runtime's read-only mounts are so all the way down
	files    []string // sources of mounts that are no directories
	sources  []string // where the runtime finds the source of each mount; nil is at its own place
	seccomp  *specs.LinuxSeccomp
}

// configure translates a run to an OCI configuration. What only the image's
// files contain is completed by the launcher.
func configure(id string, spec engine.Spec, image v1.Config, h host) (specs.Spec, error) {
	args, err := command(spec, image)
	if err != nil {
		return specs.Spec{}, err
	}
	hostname := h.hostname
	own, err := networkOf(spec.Network)
	if err != nil {
		return specs.Spec{}, err
	}
	if own {
		hostname = id[:12]
	}
	variables := environment(hostname, image.Env, spec.Env)
	if err := fits(args, variables); err != nil {
		return specs.Spec{}, err
	}
	directory, err := workDir(spec, image)
	if err != nil {
		return specs.Spec{}, err
	}
	binds, err := mounts(spec, h)
	if err != nil {
		return specs.Spec{}, err
	}
	resources, err := bounds(spec, h)
	if err != nil {
		return specs.Spec{}, err
	}
	namespaces := []specs.LinuxNamespace{
		{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace},
		{Type: specs.MountNamespace}, {Type: specs.CgroupNamespace},
	}
	if own {
		namespaces = append(namespaces, specs.LinuxNamespace{Type: specs.NetworkNamespace})
	}
	capabilities := engine.Capabilities()
	linux := &specs.Linux{
		Namespaces:    namespaces,
		Resources:     resources,
		MaskedPaths:   masked,
		ReadonlyPaths: unchanged,
		Seccomp:       h.seccomp,
	}
	if h.bounded {
		linux.CgroupsPath = "/" + cgroupOf(id)
	}
	return specs.Spec{
		Version: "1.0.2", // what is used here is no newer, and old runtimes refuse newer versions
		Process: &specs.Process{
			Args: args,
			Env:  variables,
			Cwd:  directory,
			Capabilities: &specs.LinuxCapabilities{
				Bounding: capabilities, Effective: capabilities, Permitted: capabilities,
			},
			NoNewPrivileges: true,
		},
		Hostname: hostname,
		Mounts:   append(ownMounts(h.rootless, own, spec.Mounts), binds...),
		Linux:    linux,
	}, nil
}

// cgroupOf is the name of a container's cgroup, directly below the root of each
// hierarchy: a shared parent would have to be kept from being removed while
// others use it.
func cgroupOf(id string) string { return "deployster-" + id }

// command resolves entrypoint and arguments as Docker does.
func command(spec engine.Spec, image v1.Config) ([]string, error) {
	args := slices.Concat(image.Entrypoint, image.Cmd)
	switch {
	case spec.Entrypoint != "":
		args = append([]string{spec.Entrypoint}, spec.Args...)
	case spec.Args != nil:
		args = slices.Concat(image.Entrypoint, spec.Args)
	}
	if len(args) == 0 {
		return nil, errors.New("the image has neither entrypoint nor command: give one")
	}
	return args, nil
}

// longest is how long one argument or variable can be, in bytes. The kernel
// refuses more only when the container is started already.
const longest = 32*4096 - 1

func fits(args, variables []string) error {
	for i, arg := range args {
		if len(arg) > longest {
			return fmt.Errorf("argument %d is too long: of its %d bytes the kernel takes %d", i, len(arg), longest)
		}
	}
	for _, variable := range variables {
		if len(variable) > longest {
			name, _, _ := strings.Cut(variable, "=")
			return fmt.Errorf("variable %.100s is too long: of its %d bytes the kernel takes %d", name, len(variable), longest)
		}
	}
	return nil
}

func workDir(spec engine.Spec, image v1.Config) (string, error) {
	directory := image.WorkingDir
	if spec.WorkDir != "" {
		directory = spec.WorkDir
	}
	if directory == "" {
		return "/", nil
	}
	if !path.IsAbs(directory) {
		return "", fmt.Errorf("working directory %q is not an absolute path", directory)
	}
	directory = path.Clean(directory)
	// Runtimes entered it while files of the machine were open: a way out.
	if directory == "/proc" || strings.HasPrefix(directory, "/proc/") {
		return "", fmt.Errorf("working directory %s: it may not be below /proc", directory)
	}
	return directory, nil
}

// environment joins the image's variables and the run's, of which the later win.
func environment(hostname string, lists ...[]string) []string {
	joined := []string{defaultPath, "HOSTNAME=" + hostname}
	for _, variable := range slices.Concat(lists...) {
		key, _, assigned := strings.Cut(variable, "=")
		at := slices.IndexFunc(joined, func(has string) bool { return strings.HasPrefix(has, key+"=") })
		switch {
		case !assigned && at < 0, key == "":
		case !assigned:
			joined = slices.Delete(joined, at, at+1) // Docker takes a variable away so
		case at < 0:
			joined = append(joined, variable)
		default:
			joined[at] = variable
		}
	}
	return joined
}

// networkOf reports whether a container has a network of its own, with nothing in
// it.
func networkOf(name string) (own bool, err error) {
	switch name {
	case "", "host":
		return false, nil
	case "none":
		return true, nil
	default:
		return false, fmt.Errorf("network %q: without a daemon there are the networks host and none; use the docker engine for others", name)
	}
}

// bounds limits memory and processes.
func bounds(spec engine.Spec, h host) (*specs.LinuxResources, error) {
	if spec.Memory < 0 || spec.Pids < 0 {
		return nil, fmt.Errorf("memory %d bytes, %d processes: bounds cannot be negative", spec.Memory, spec.Pids)
	}
	if !h.bounded {
		return nil, nil
	}
	memory, pids := spec.Memory, spec.Pids
	if memory == 0 {
		memory = defaultMemory
	}
	if pids == 0 {
		pids = defaultPids
	}
	limited := &specs.LinuxMemory{Limit: &memory}
	if h.swap {
		limited.Swap = &memory // of both together
	}
	return &specs.LinuxResources{
		Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}, // the runtime allows the harmless ones
		Memory:  limited,
		Pids:    &specs.LinuxPids{Limit: &pids},
	}, nil
}

// ownMounts are what every container has. The run's mounts are put over them.
func ownMounts(rootless, ownNetwork bool, binds []engine.Mount) []specs.Mount {
	terminals := []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}
	if !rootless {
		terminals = append(terminals, "gid=5")
	}
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: terminals},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
	}
	// Whoever does not own the network namespace may not mount what shows it.
	if !rootless || ownNetwork {
		mounts = append(mounts, specs.Mount{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}})
	}
	if !slices.ContainsFunc(binds, func(m engine.Mount) bool { return path.Clean(m.Target) == "/tmp" }) {
		mounts = append(mounts, specs.Mount{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777", fmt.Sprintf("size=%d", int64(defaultMemory))}})
	}
	return mounts
}

// mounts translates mounts and what is hidden, outer ones first. A read-only mount is so with
// all that is mounted below its source, which is nothing if that is a file; crun
// refuses to look.
func mounts(spec engine.Spec, h host) ([]specs.Mount, error) {
	var all []specs.Mount
	for i, m := range spec.Mounts {
		target := path.Clean(m.Target)
		switch {
		case !filepath.IsAbs(m.Source):
			return nil, fmt.Errorf("mount source %q is not an absolute path", m.Source)
		case !path.IsAbs(m.Target):
			return nil, fmt.Errorf("mount target %q is not an absolute path", m.Target)
		case target == "/":
			return nil, fmt.Errorf("mount source %s: it cannot be mounted on /", m.Source)
		}
		if has(all, target) {
			return nil, fmt.Errorf("mount target %s is there twice", target)
		}
		options := []string{"rbind", "rprivate"}
		switch {
		case m.ReadOnly && (h.flat || slices.Contains(h.files, m.Source)):
			options = append(options, "ro")
		case m.ReadOnly:
			// A runtime that does not know "rro" takes it for an option of the file
			// system, and would mount writable.
			options = append(options, "ro", "rro")
		}
		source := m.Source
		if h.sources != nil {
			source = h.sources[i]
		}
		all = append(all, specs.Mount{Destination: target, Type: "bind", Source: source, Options: options})
	}
	for _, hidden := range spec.Hide {
		target := path.Clean(hidden)
		if !path.IsAbs(hidden) || target == "/" {
			return nil, fmt.Errorf("hidden directory %q: it must be an absolute path below /", hidden)
		}
		if has(all, target) {
			return nil, fmt.Errorf("hidden directory %s is mounted, or there twice", target)
		}
		all = append(all, specs.Mount{
			Destination: target, Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "noexec", "ro", "mode=555", "size=4k"},
		})
	}
	slices.SortFunc(all, func(a, b specs.Mount) int { return strings.Compare(a.Destination, b.Destination) })
	return all, nil
}

func has(mounts []specs.Mount, target string) bool {
	return slices.ContainsFunc(mounts, func(m specs.Mount) bool { return m.Destination == target })
}
