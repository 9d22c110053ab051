// Package engines opens container engines: the one that --engine names, those of
// hosts, and those that runs of the past used. With package app, which opens the
// log, it is where concrete engines and stores have names.
package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/deployster-go/deployster/control/locked"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/oci"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/entrypoint"
	"github.com/deployster-go/deployster/internal/lockfile"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/internal/usercache"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/runner/inits"
)

// The engines that --engine names.
const (
	Auto       = "auto"
	Docker     = "docker"
	OCI        = "oci"
	Kubernetes = "kubernetes"
)

// engineTimeout is how long an engine may take to answer at first.
const engineTimeout = 30 * time.Second

// Connect connects to the engine that --engine asks for.
func Connect(ctx context.Context, a *app.App, news io.Writer, f Flags) (*work.Connection, error) {
	var by reach
	if a.Global.Engine == Kubernetes {
		var err error
		if by.cluster, err = namedCluster(a, f); err != nil {
			return nil, err
		}
	}
	e, err := chooseEngine(ctx, a, news, by.cluster, f)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	on, err := connection(ctx, a, news, e, by, f)
	if err == nil && on.Info.Name == OCI && f.Network != "" && f.Network != "none" && f.Network != "host" {
		err = exit.Usage("--network %s: without a daemon there are the networks host and none; others need --engine docker", f.Network)
		return nil, errors.Join(err, e.Close())
	}
	return on, err
}

// Note says which engine a command acts on, unless it is the usual one of this machine.
func Note(a *app.App, on *work.Connection) {
	source := ""
	if e, is := on.Engine.(*docker.Engine); is {
		source = e.Source()
	}
	if text := noteOf(on.Info, source, a.Getenv); text != "" {
		a.Notice("note: " + text)
	}
}

// noteOf returns what Note says; "" is nothing.
func noteOf(info engine.Info, source string, env func(string) string) string {
	text := fmt.Sprintf("this acts on %s %s at %s", info.Name, info.Version, info.Address)
	overrides := env("DOCKER_HOST") != "" && env("DOCKER_CONTEXT") != ""
	switch {
	case info.Name == OCI, info.Name == Docker && !overrides && info.Address == docker.DefaultHost:
		return ""
	case info.Name == Docker && overrides:
		return text + ": DOCKER_HOST overrides DOCKER_CONTEXT"
	case source != "":
		return text + " (from " + source + ")"
	default:
		return text
	}
}

// reach is how an engine is reached that has ways of its own.
type reach struct {
	tls     runs.EngineTLS
	cluster inventory.Kubernetes // its kubeconfig is absolute, or the user's
}

// connection asks an engine that was opened who it is, and prepares the images of the
// types that ship with this binary. It closes an engine that cannot be used.
func connection(ctx context.Context, a *app.App, news io.Writer, e engine.Engine, by reach, f Flags) (*work.Connection, error) {
	info, err := e.Info(ctx)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	var lock *lockfile.File
	if !f.Unlocked {
		if lock, err = LockFile(a, f.Locked); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	options := shipped.Options{Version: a.Version, OS: info.OS, Arch: info.Arch, TypesImage: f.typesImage}
	if info.Name == Kubernetes {
		options.TypesImage = "" // there it is where the images of this very program are pushed to
	}
	images, err := shipped.NewImages(e, options)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	on := &work.Connection{Engine: e, Info: info, Images: images, Recovery: &finder{app: a, news: news, engine: e, info: info, reached: by, lostFor: f.LostFor}}
	if lock != nil {
		on.Images = locked.NewImages(lock, images, f.Locked, func(text string) { fmt.Fprintf(news, "note: %s\n", text) })
	}
	return on, nil
}

func chooseEngine(ctx context.Context, a *app.App, news io.Writer, k inventory.Kubernetes, f Flags) (engine.Engine, error) {
	if a.Global.OciRuntime != "" && a.Global.Engine != OCI {
		return nil, exit.Usage("--oci-runtime is for --engine oci, and this is --engine %s", a.Global.Engine)
	}
	if err := onlyForKubernetes(a); err != nil {
		return nil, err
	}
	switch a.Global.Engine {
	case Docker:
		return openDocker(ctx, a, news, f.LostFor)
	case OCI:
		return OpenOCI(ctx, a, news)
	case Kubernetes:
		return openKubernetes(ctx, a, news, k, f.LostFor)
	case Auto:
		return auto(ctx, a, news, f)
	default:
		return nil, UnknownEngine(a.Global.Engine)
	}
}

// auto takes Docker where it answers, else oci. It prefers oci where a dead run, of
// which something may still be at work, can be asked for only with that. It does not
// go over from Docker to oci while the engine of such a run cannot be asked.
func auto(ctx context.Context, a *app.App, news io.Writer, flags Flags) (engine.Engine, error) {
	f, unfinished := &finder{app: a, news: news, lostFor: flags.LostFor}, flags.Unfinished
	if unfinished != nil && unfinished.Used.Kind == OCI {
		if left, _, err := f.Open(ctx, unfinished.Used); err == nil && left != nil {
			if e, err := OpenOCI(ctx, a, news); err == nil {
				fmt.Fprintf(news, "note: --engine auto takes oci, which run %s used: it did not end\n", unfinished.Run)
				return e, nil
			}
		}
	}
	e, err := openDocker(ctx, a, news, flags.LostFor)
	if err == nil || !errors.Is(err, engine.ErrUnavailable) || a.Getenv("DOCKER_HOST") != "" || a.Getenv("DOCKER_CONTEXT") != "" {
		return e, err // who names a Docker Engine means that one
	}
	if unfinished != nil {
		_, done, err := f.Open(ctx, unfinished.Used)
		if err != nil {
			return nil, &runs.HeldError{Run: *unfinished, Cause: err}
		}
		if done != nil {
			done()
		}
	}
	without, ociErr := OpenOCI(ctx, a, news)
	if ociErr != nil {
		return nil, fmt.Errorf("%w: there is no container engine. Either will do:\n  docker: %w\n  oci: %w", engine.ErrUnavailable, err, ociErr)
	}
	return without, nil
}

// UnknownEngine refuses a name that is of no engine.
func UnknownEngine(name string) error {
	return exit.Usage("--engine %s: it must be auto, docker, oci or kubernetes", name)
}

func openDocker(ctx context.Context, a *app.App, news io.Writer, lostFor time.Duration) (*docker.Engine, error) {
	shim, err := entrypoint.Executable()
	if err != nil {
		shim = "" // containers then start a little later
	}
	return docker.Open(ctx, docker.Options{Shim: shim, LostFor: lostFor, Tunnels: a.Tunnels(), Timeout: engineTimeout, Logger: app.Logger(news)})
}

// OpenOCI opens the engine that needs no daemon.
func OpenOCI(ctx context.Context, a *app.App, news io.Writer) (*oci.Engine, error) {
	return oci.Open(ctx, oci.Options{Runtime: a.Global.OciRuntime, AllowUnbounded: a.Global.Unbounded, Logger: app.Logger(news)})
}

// dockerAt is the Docker Engine of a host at an address, with the files of one that has its own.
func dockerAt(a *app.App, address, source string, tls runs.EngineTLS, env func(string) string, news io.Writer) docker.Options {
	o := docker.Options{Host: address, Source: source, Env: env, Tunnels: a.Tunnels(), Timeout: work.HostTimeout, Logger: app.Logger(news)}
	if files := docker.TLS(tls); files != (docker.TLS{}) {
		o.TLS = &files
	}
	return o
}

// Dial connects to the engines of the hosts of an inventory file. All hosts of the oci
// engine are this machine, and share one connection.
func Dial(a *app.App, file string, news io.Writer, f Flags) work.Dial {
	local := newLocal(func(ctx context.Context) (*work.Connection, error) {
		e, err := OpenOCI(ctx, a, news)
		if err != nil {
			return nil, err
		}
		return connection(ctx, a, news, e, reach{}, f)
	})
	return func(ctx context.Context, h inventory.Host) (*work.Connection, error) {
		if h.Name == "" {
			return Connect(ctx, a, news, f)
		}
		by := reachOf(h, file)
		opening, cancel := context.WithTimeout(ctx, work.HostTimeout)
		defer cancel()
		var e engine.Engine
		var err error
		switch h.Engine {
		case inventory.OCI:
			return local.connect(opening)
		case inventory.KubernetesEngine:
			e, err = openKubernetes(opening, a, news, by.cluster, f.LostFor)
		default: // its login may wait for those of other hosts, which does not count
			e, err = openHost(ctx, a, h, by.tls, news, f.LostFor)
		}
		if err != nil {
			return nil, err
		}
		asking, done := context.WithTimeout(ctx, work.HostTimeout)
		defer done()
		return connection(asking, a, news, e, by, f)
	}
}

// openHost opens the Docker Engine of a host of an inventory.
func openHost(ctx context.Context, a *app.App, h inventory.Host, tls runs.EngineTLS, news io.Writer, lostFor time.Duration) (*docker.Engine, error) {
	options := dockerAt(a, h.Endpoint, "the inventory", tls, a.WithoutTLS, news)
	options.LostFor = lostFor
	if h.Context != "" {
		if err := checkContext(h.Context, a.WithoutTLS); err != nil {
			return nil, err
		}
		options.Context = h.Context
	}
	return docker.Open(ctx, options)
}

// reachOf is how the engine of a host is reached, if it has ways of its own: relative paths are
// below the directory of the inventory.
func reachOf(h inventory.Host, file string) reach {
	dir := filepath.Dir(file)
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	below := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, path)
	}
	var by reach
	if h.TLS != nil {
		by.tls = runs.EngineTLS{CA: below(h.TLS.CA), Cert: below(h.TLS.Cert), Key: below(h.TLS.Key)}
	}
	if h.Kubernetes != nil {
		by.cluster = *h.Kubernetes
		by.cluster.Kubeconfig = below(by.cluster.Kubeconfig)
	}
	return by
}

// InitCache returns where runs remember what types answered init, nil where
// they do not.
func InitCache(a *app.App, f Flags) inits.Cache {
	if f.noCache {
		return nil
	}
	return usercache.NewInitCache(a.Now, func(text string) { app.Logger(a.Err).Warn(text) })
}
