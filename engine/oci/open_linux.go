package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/oci/internal/store"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/entrypoint"
	"github.com/deployster-go/deployster/internal/regularfile"
)

// Engine runs containers by an OCI runtime. It is safe for concurrent use.
type Engine struct {
	dir       runDir
	tool      process // this one
	ahead     ahead
	own       own
	listing   listing
	store     *store.Store
	runtime   string // absolute path
	version   string // the runtime's name and version
	keeps     bool   // the runtime can leave the cgroups of a container it has run
	rootless  bool
	bounded   bool // containers have control groups
	cgroups   cgroups
	filter    func() (*specs.LinuxSeccomp, error)
	unbounded sync.Once // warns that bounds are not kept
	log       *slog.Logger
	passed    func(point string) // if set, called at every point of a run: tests end there
}

var _ engine.Engine = (*Engine)(nil)

// Open finds what running containers needs, tries it, and removes what tools
// that died have left. It fails with engine.ErrUnavailable when something is
// missing, and says what.
func Open(ctx context.Context, options Options) (*Engine, error) {
	e := &Engine{
		rootless: os.Geteuid() != 0,
		filter:   sync.OnceValues(systemCalls),
		log:      options.Logger,
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if e.runtime, err = findRuntime(options.Runtime); err != nil {
		return nil, unavailable(err)
	}
	if e.dir, err = findRunDir(options.RunDir, e.rootless); err != nil {
		return nil, unavailable(err)
	}
	if e.tool, err = identify(os.Getpid()); err != nil {
		return nil, unavailable(err)
	}
	if e.cgroups, err = usableCgroups(e.rootless); err == nil {
		e.bounded = !e.rootless
	} else if !options.AllowUnbounded {
		return nil, unavailable(fmt.Errorf("memory and processes of containers cannot be bounded: %w; --allow-unbounded runs them without bounds", err))
	} else {
		e.warnUnbounded(ctx, err.Error())
	}
	asked := make(chan error, 1)
	go func() {
		asked <- crash.Do("asking "+e.runtime+" for its version", func() (err error) {
			e.version, err = askVersion(ctx, e.runtime)
			return err
		})
	}()
	if err := errors.Join(e.try(ctx), <-asked); err != nil {
		return nil, unavailable(err)
	}
	e.keeps = strings.HasPrefix(e.version, "runc ") && !strings.HasPrefix(e.version, "runc 1.0")
	if e.store, err = openStore(options.CacheDir, e.rootless, e.log); err != nil {
		return nil, err
	}
	ids, err := e.dir.ids()
	if err != nil {
		return nil, fmt.Errorf("look for what is left of containers: %w", err)
	}
	for _, id := range ids {
		if _, _, err := e.inspect(ctx, id); err != nil {
			e.log.WarnContext(ctx, "something of a container is left behind", "container", id, "error", err)
		}
	}
	return e, nil
}

func unavailable(err error) error {
	return fmt.Errorf("%w: running containers without a daemon: %w", engine.ErrUnavailable, err)
}

// findRuntime returns the path of a runtime. Its directory is often in the PATH
// of root only.
func findRuntime(name string) (string, error) {
	if name == "" {
		name = "runc"
	}
	found, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) {
		for _, directory := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
			if elsewhere, err := exec.LookPath(filepath.Join(directory, name)); err == nil {
				return elsewhere, nil
			}
		}
		return "", fmt.Errorf("there is no runtime %q: %s, or name another", name, remedy(name))
	}
	if err != nil {
		return "", fmt.Errorf("runtime %q cannot be executed: %w", name, err)
	}
	return filepath.Abs(found)
}

// remedy says how to get a runtime.
func remedy(name string) string {
	if slices.Contains([]string{"runc", "crun", "runsc"}, name) {
		return fmt.Sprintf("install it (Debian and Ubuntu: `apt-get install %s`)", name)
	}
	return "install it as its authors say, in a directory of the PATH"
}

// askVersion asks a runtime for its name and version.
func askVersion(ctx context.Context, path string) (string, error) {
	answer, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("runtime %s does not report its version: %w; is it an OCI runtime?", path, err)
	}
	first, _, _ := strings.Cut(string(answer), "\n")
	first = strings.TrimSpace(strings.Replace(first, " version ", " ", 1))
	if first == "" {
		return "", fmt.Errorf("runtime %s does not report its version; is it an OCI runtime?", path)
	}
	return first, nil
}

func findRunDir(named string, rootless bool) (runDir, error) {
	directory, err := runDirOf(named, rootless)
	if err != nil {
		return "", err
	}
	return directory, directory.make()
}

// runDirOf names the run directory, which need not be there.
func runDirOf(named string, rootless bool) (runDir, error) {
	directory := named
	switch runtimeDir := os.Getenv("XDG_RUNTIME_DIR"); {
	case directory != "":
	case !rootless:
		directory = "/run/deployster"
	case runtimeDir != "":
		directory = filepath.Join(runtimeDir, "deployster")
	default:
		directory = filepath.Join(os.TempDir(), fmt.Sprintf("deployster-%d", os.Geteuid()))
	}
	absolute, err := filepath.Abs(directory)
	if err != nil {
		return "", fmt.Errorf("the run directory %s: %w", directory, err)
	}
	return runDir(absolute), nil
}

func openStore(named string, rootless bool, log *slog.Logger) (*store.Store, error) {
	directory := named
	if directory == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("find a cache directory for images: %w; set XDG_CACHE_HOME", err)
		}
		directory = filepath.Join(cache, "deployster", "oci")
	}
	absolute, err := filepath.Abs(directory)
	if err != nil {
		return nil, fmt.Errorf("the cache directory %s: %w", directory, err)
	}
	return store.Open(store.Options{
		Dir: absolute, Platform: v1.Platform{OS: "linux", Architecture: runtime.GOARCH}, Rootless: rootless, Logger: log,
	})
}

// usableCgroups finds control groups that may be made: without them there are
// no bounds. Without root none may.
func usableCgroups(rootless bool) (cgroups, error) {
	c, err := findCgroups()
	if err != nil {
		return c, err
	}
	unused := cgroups{hidden: c.hidden, none: c.none}
	if rootless {
		return unused, nil
	}
	if c.memory == "" {
		return unused, errors.New("no control groups that bound memory are mounted below /sys/fs/cgroup")
	}
	if err := unix.Access(c.memory, unix.W_OK); err != nil {
		return unused, fmt.Errorf("control groups cannot be made in %s: %w; in a container, run that privileged", c.memory, err)
	}
	return c, nil
}

// warnUnbounded warns, once, that bounds are not kept.
func (e *Engine) warnUnbounded(ctx context.Context, why string) {
	e.unbounded.Do(func() {
		e.log.WarnContext(ctx, "memory and processes of containers are not bounded: "+why)
	})
}

// try has a launcher mount what it mounts for every container.
func (e *Engine) try(ctx context.Context) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	l, err := e.startLauncher(null, null, null)
	if err != nil {
		return e.forbidden(err)
	}
	defer l.close()
	defer context.AfterFunc(ctx, l.kill)()
	_ = l.orders.Encode(entrypoint.Request{Dir: e.dir.mountPoint(), Rootless: e.rootless})
	switch report := l.report(); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case report.Failed != nil:
		return e.forbidden(report.Failed)
	case report.Ended == nil:
		return errors.New("the launcher died; the program must be able to execute itself")
	}
	return nil
}

// Info says which runtime is used, and how.
func (e *Engine) Info(ctx context.Context) (engine.Info, error) {
	if err := ctx.Err(); err != nil {
		return engine.Info{}, fmt.Errorf("ask for the engine's version: %w", context.Cause(ctx))
	}
	address := e.runtime
	switch {
	case e.rootless:
		address += " without root: memory and processes are not bounded"
	case !e.bounded:
		address += " without control groups: memory and processes are not bounded"
	}
	return engine.Info{
		Pins: true,
		Name: "oci", Version: e.version, OS: "linux", Arch: runtime.GOARCH, Address: address, Tied: true,
	}, nil
}

// Identity is where what is known of running containers lies: engines that share
// it see the same containers.
func (e *Engine) Identity(context.Context) (engine.Identity, error) {
	return engine.Identity{ID: string(e.dir), Local: true}, nil
}

// Close ends what was started ahead of further runs. What runs belongs to calls
// of Run.
func (e *Engine) Close() error {
	e.ahead.close()
	return nil
}

// host looks at the machine for what containers take from it.
func (e *Engine) host() (host, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return host{}, fmt.Errorf("find the host's name: %w", err)
	}
	filter, err := e.filter()
	if err != nil {
		return host{}, err
	}
	return host{
		rootless: e.rootless,
		bounded:  e.bounded,
		swap:     e.bounded && e.cgroups.countsSwap(),
		hostname: hostname,
		flat:     e.gvisor(),
		seccomp:  filter,
	}, nil
}

// systemCalls is the filter of Docker, for this machine's own architecture. A
// program for another one that the machine could run, such as a 32-bit one, is
// killed: to filter its calls, too, costs every start half as much again.
func systemCalls() (*specs.LinuxSeccomp, error) {
	filter, err := seccomp.GetDefaultProfile(&specs.Spec{
		Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: engine.Capabilities()}},
	})
	if err != nil {
		return nil, fmt.Errorf("make the system call filter: %w", err)
	}
	if len(filter.Architectures) > 1 {
		filter.Architectures = filter.Architectures[:1]
	}
	return filter, nil
}

// networkFiles are the files by which a container resolves names: the host's if it
// has the host's network.
func networkFiles(hostname, network string) map[string]string {
	files := map[string]string{
		"/etc/hostname":    hostname + "\n",
		"/etc/hosts":       "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n",
		"/etc/resolv.conf": "",
	}
	if network == "none" {
		return files
	}
	for _, name := range []string{"/etc/hosts", "/etc/resolv.conf"} {
		if content, ok := readSmall(name); ok {
			files[name] = content
		}
	}
	return files
}

// readSmall reads a file of the host that is of the size that it should be.
func readSmall(name string) (string, bool) {
	file, _, err := regularfile.Open(name)
	if err != nil {
		return "", false
	}
	defer func() { _ = file.Close() }()
	const most = 1 << 20
	content, err := io.ReadAll(io.LimitReader(file, most))
	return string(content), err == nil && len(content) < most
}
