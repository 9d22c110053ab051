// Package docker runs containers on a Docker Engine.
//
// The engine is found as the docker command finds it: a host or context that
// was asked for, else DOCKER_HOST, DOCKER_CONTEXT, the current context of
// Docker's configuration file, else the default socket. It may be behind a
// Unix socket, behind TCP with or without TLS, or behind ssh.
//
// One run is a conversation whose order matters (see Engine.Run): the streams
// and the wait are there before the process starts, so no output and no exit is
// ever missed, and the container is removed whatever happens. A connection that breaks
// does not end a run: see reconnect.go. No other request is retried: an error says what
// was attempted and what the user can do about it.
package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/registryauth"
)

// TLS is the files by which both sides of a connection are authenticated.
type TLS struct {
	CA        string // certificate of the authority that vouches for the engine
	Cert, Key string // this side's; both or none
}

// Options says which engine to open. The zero value takes everything from the
// process environment and Docker's own configuration.
type Options struct {
	// Host is the engine's address (unix://, tcp://, ssh://). It goes before
	// every setting of the environment, and excludes Context.
	Host string

	// TLS is for a tcp:// Host; nil is what the environment says.
	TLS *TLS

	// Context is the name of a docker context.
	Context string

	// Source is what names the Host or the Context, such as "the inventory", for errors.
	Source string

	// Tunnels holds the ssh connections of the process, which engines of one address
	// share; nil is one of the engine's own. They must be open as long as the engine.
	Tunnels *Tunnels

	// Timeout is how long the engine may take to answer at first. The time for which
	// a login by ssh waits for others does not count. 0 leaves it to the context.
	Timeout time.Duration

	// ConfigDir holds Docker's config.json and contexts; empty is
	// DOCKER_CONFIG, else .docker in the home directory.
	ConfigDir string

	// Env looks an environment variable up; nil is os.Getenv. The ssh command
	// and credential helpers are started with the process's own environment.
	Env func(string) string

	// Shim is this machine's file of a static Linux binary whose main begins with
	// entrypoint.Dispatch, as this program's does (see entrypoint.Executable).
	// Containers that are held (engine.Spec.Hold) then start ahead of their input,
	// and those that rely on it (Whole) with all of it; they see the file in their
	// root directory. Without it, or for an engine elsewhere, held ones are only
	// created ahead.
	Shim string

	// LostFor is how long the engine may be silent while a container of a Run is at
	// work, until the Run fails with engine.ErrLost; 0 is DefaultLostFor.
	LostFor time.Duration

	// Logger receives what does not fail a call; nil discards it.
	Logger *slog.Logger
}

// Engine is a Docker Engine. It is safe for concurrent use.
type Engine struct {
	client   *client.Client
	endpoint endpoint
	tunnel   *tunnel  // of an engine behind ssh
	own      *Tunnels // that end with the engine; nil for those of Options
	left     atomic.Bool
	keychain registryauth.Keychain
	log      *slog.Logger
	shim     string // "" if there is none
	idle     time.Duration
	lostFor  time.Duration // see Options

	retryFor, lookEvery time.Duration // see their defaults

	shimless sync.Map    // images whose containers are made without the shim
	warned   atomic.Bool // that an input may be cut short
	removals *removals
	passed   func(point string) // if set, called at every point of a run: tests end there
}

var _ engine.Engine = (*Engine)(nil)

// Open connects to a Docker Engine and agrees with it on an API version. It
// fails with engine.ErrUnavailable when the engine does not answer; how long to
// wait for that is up to ctx.
func Open(ctx context.Context, options Options) (*Engine, error) {
	if options.Env == nil {
		options.Env = os.Getenv
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	directory, err := configDirectory(options)
	if err != nil {
		return nil, err
	}
	config, err := registryauth.ConnectionOf(directory)
	if err != nil {
		return nil, err
	}
	where, err := resolve(options, directory, config.CurrentContext)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		endpoint: where,
		keychain: registryauth.Keychain{Env: options.Env},
		log:      options.Logger,
		removals: newRemovals(),
		idle:     shimIdle,
		lostFor:  cmp.Or(options.LostFor, DefaultLostFor),

		retryFor:  defaultRetryFor,
		lookEvery: defaultLookEvery,
	}
	if options.ConfigDir != "" {
		e.keychain.File = filepath.Join(options.ConfigDir, "config.json")
	}
	e.shim = e.shimFile(options.Shim)
	if where.scheme() == "ssh" {
		if err := e.enterTunnel(options); err != nil {
			return nil, err
		}
	}
	if err := e.connect(ctx, options, config.HTTPHeaders); err != nil {
		return nil, errors.Join(err, e.leaveTunnel())
	}
	return e, nil
}

// connect makes the client of the engine, and asks for its first answer.
func (e *Engine) connect(ctx context.Context, options Options, headers map[string]string) error {
	settings, err := e.endpoint.clientOptions(e.tunnel)
	if err != nil {
		return err
	}
	if len(headers) > 0 {
		settings = append(settings, client.WithHTTPHeaders(headers))
	}
	if e.client, err = client.New(settings...); err != nil {
		return fmt.Errorf("connect to Docker at %s: %w", e.endpoint.address, err)
	}
	if e.tunnel != nil {
		if err := e.tunnel.ready(ctx, cmp.Or(options.Timeout, loginTime)); err != nil {
			return e.unreachable("connect", err)
		}
	}
	if options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, options.Timeout)
		defer cancel()
	}
	if _, err := e.client.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		_ = e.client.Close()
		return e.unreachable("connect", err)
	}
	return nil
}

// Info asks the engine for its version and platform.
func (e *Engine) Info(ctx context.Context) (engine.Info, error) {
	version, err := e.client.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return engine.Info{}, e.unreachable("ask for its version", err)
	}
	return engine.Info{
		Name:    "docker",
		Version: version.Version,
		OS:      version.Os,
		Arch:    goarch(version.Arch),
		Address: e.endpoint.address,
		Remote:  !e.endpoint.local(),
	}, nil
}

// Identity asks the engine which one it is. Machines that were copied have an ID in
// common, and so have engines on one machine; its name and the place of its data
// tell those apart. Podman invents an ID for each answer, so an ID that differs when
// it is asked for again is none. A proxy that forbids the question, as those for sockets may, leaves it without one.
func (e *Engine) Identity(ctx context.Context) (engine.Identity, error) {
	identity := engine.Identity{Context: e.endpoint.context}
	found, err := e.client.Info(ctx, client.InfoOptions{})
	if errdefs.IsPermissionDenied(err) {
		return identity, nil
	}
	if err != nil {
		return identity, e.wrap("ask which engine it is", err)
	}
	again, err := e.client.Info(ctx, client.InfoOptions{})
	if err != nil {
		return identity, e.wrap("ask again which engine it is", err)
	}
	info := found.Info
	if info.ID != "" && info.ID == again.Info.ID {
		identity.ID = strings.Join([]string{info.ID, info.Name, info.DockerRootDir}, " ")
	}
	// A socket may lead to another machine, or into a virtual one.
	if host, err := os.Hostname(); err == nil && e.endpoint.local() && info.Name == host {
		identity.Local = true
	}
	return identity, nil
}

// Close waits until the containers of ended runs are removed, which is tried
// for gracePeriod at most, and releases its connections. Other containers are
// left alone.
func (e *Engine) Close() error {
	e.removals.under.Wait()
	return errors.Join(e.client.Close(), e.leaveTunnel())
}

// goarch translates the machine names of uname, which some engines report.
func goarch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	case "armv6l", "armv7l", "armhf":
		return "arm"
	case "i386", "i686":
		return "386"
	default:
		return machine
	}
}
