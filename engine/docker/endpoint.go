package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	dockercontext "github.com/docker/cli/cli/context"
	dockerendpoint "github.com/docker/cli/cli/context/docker"
	"github.com/docker/cli/cli/context/store"
	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/internal/keepalive"
)

// defaultContext is the name of the context that stands for "no context":
// DOCKER_HOST or the default socket.
const defaultContext = "default"

// DefaultHost is the address of the engine if nothing names another one.
const DefaultHost = client.DefaultDockerHost

// endpoint is where an engine is, with what is needed to get in.
type endpoint struct {
	address string // as the user wrote it
	source  string // what named it, for error messages
	context string // name of the docker context that it is from, if any
	docker  dockerendpoint.Endpoint
}

// Source returns what named the engine: a variable, a file, a context, or Options.Source.
func (e *Engine) Source() string { return e.endpoint.source }

func (e endpoint) scheme() string {
	scheme, _, _ := strings.Cut(e.address, "://")
	return scheme
}

// local reports whether the engine sees this machine's file system.
func (e endpoint) local() bool {
	return e.scheme() == "unix" || e.scheme() == "npipe"
}

// silence is how long a machine may leave unanswered what was sent to its engine, as one behind ssh may.
const silence = 45 * time.Second

// keptAlive is a connection of which the client library does not know that it is TCP: it would set
// other times.
type keptAlive struct{ *net.TCPConn }

// clientOptions configures a client for the endpoint. Connections are made by a
// dialer whose errors keep their cause (see dialError): through the tunnel if there is one.
func (e endpoint) clientOptions(through *tunnel) ([]client.Opt, error) {
	if through != nil {
		return through.clientOptions(), nil
	}
	options, err := e.docker.ClientOpts()
	if err != nil {
		return nil, fmt.Errorf("connect to Docker at %s (from %s): %w", e.address, e.source, err)
	}
	dialer := keepalive.Dialer(30*time.Second, 10*time.Second, silence)
	switch e.scheme() {
	case "unix":
		path := strings.TrimPrefix(e.address, "unix://")
		options = append(options, client.WithDialContext(func(ctx context.Context, _, _ string) (net.Conn, error) {
			return keepCause(dialer.DialContext(ctx, "unix", path))
		}))
	case "tcp", "http", "https":
		options = append(options, client.WithDialContext(func(ctx context.Context, _, address string) (net.Conn, error) {
			conn, err := keepCause(dialer.DialContext(ctx, "tcp", address))
			if tcp, is := conn.(*net.TCPConn); is {
				return keptAlive{tcp}, err
			}
			return conn, err
		}))
	}
	return options, nil
}

// resolve finds the endpoint as the docker command does, most explicit first.
// chosen is the context that Docker's configuration in the directory names.
func resolve(options Options, directory, chosen string) (endpoint, error) {
	host, hostSource := options.Host, cmp.Or(options.Source, "the given host")
	name, nameSource := options.Context, cmp.Or(options.Source, "the given context")
	switch {
	case host != "" && name != "":
		return endpoint{}, fmt.Errorf("both the Docker host %q and the Docker context %q are given: choose one", host, name)
	case host != "" || name != "":
	case options.Env("DOCKER_HOST") != "":
		host, hostSource = options.Env("DOCKER_HOST"), "DOCKER_HOST"
	case options.Env("DOCKER_CONTEXT") != "":
		name, nameSource = options.Env("DOCKER_CONTEXT"), "DOCKER_CONTEXT"
	case chosen != "":
		name, nameSource = chosen, "currentContext in "+filepath.Join(directory, "config.json")
	}
	if name != "" && name != defaultContext {
		return fromContext(name, nameSource, directory)
	}
	if options.TLS != nil {
		return fromFiles(host, hostSource, *options.TLS)
	}
	if host == "" {
		host, hostSource = options.Env("DOCKER_HOST"), "DOCKER_HOST"
	}
	if host == "" {
		host, hostSource = DefaultHost, "the default socket"
	}
	return fromHost(host, hostSource, options.Env, directory)
}

// fromHost makes an endpoint of an address; TLS comes from DOCKER_TLS_VERIFY
// (verified) or DOCKER_TLS (not verified), its files from DOCKER_CERT_PATH or
// Docker's configuration directory.
func fromHost(host, source string, env func(string) string, directory string) (endpoint, error) {
	verify := env("DOCKER_TLS_VERIFY") != ""
	encrypted := verify || env("DOCKER_TLS") != ""
	address, err := normalize(host, encrypted)
	if err != nil {
		return endpoint{}, fmt.Errorf("docker address %q (from %s): %w", host, source, err)
	}
	e := endpoint{address: address, source: source}
	e.docker.Host = address
	if !encrypted || e.scheme() != "tcp" {
		return e, nil
	}
	certificates := env("DOCKER_CERT_PATH")
	if certificates == "" {
		certificates = directory
	}
	e.docker.SkipTLSVerify = !verify
	e.docker.TLSData, err = readTLS(certificates, verify)
	if err != nil {
		return endpoint{}, fmt.Errorf("TLS to Docker at %s: %w; set DOCKER_CERT_PATH to the directory that holds ca.pem, cert.pem and key.pem", address, err)
	}
	return e, nil
}

// fromFiles makes an endpoint of an address that is verified with these files.
func fromFiles(host, source string, files TLS) (endpoint, error) {
	address, err := normalize(host, true)
	if err != nil {
		return endpoint{}, fmt.Errorf("docker address %q (from %s): %w", host, source, err)
	}
	e := endpoint{address: address, source: source}
	e.docker.Host = address
	if e.docker.TLSData, err = dockercontext.TLSDataFromFiles(files.CA, files.Cert, files.Key); err != nil {
		return endpoint{}, fmt.Errorf("TLS to Docker at %s: %w", address, err)
	}
	return e, nil
}

// readTLS reads the files that the docker command reads: ca.pem is needed to
// verify the engine, cert.pem and key.pem only if the engine asks for them.
func readTLS(directory string, verify bool) (*dockercontext.TLSData, error) {
	existing := func(name string) string {
		path := filepath.Join(directory, name)
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return ""
		}
		return path
	}
	authority := existing("ca.pem")
	if verify {
		authority = filepath.Join(directory, "ca.pem")
	}
	return dockercontext.TLSDataFromFiles(authority, existing("cert.pem"), existing("key.pem"))
}

// normalize completes an address as the docker command does: without a scheme
// it is TCP, and TCP has its usual ports.
func normalize(host string, encrypted bool) (string, error) {
	if !strings.Contains(host, "://") {
		host = "tcp://" + host
	}
	url, err := client.ParseHostURL(host)
	if err != nil {
		return "", err
	}
	switch url.Scheme {
	case "unix", "npipe", "ssh", "http", "https":
		return host, nil
	case "tcp":
		if _, _, err := net.SplitHostPort(url.Host); err != nil {
			port := "2375"
			if encrypted {
				port = "2376"
			}
			url.Host = net.JoinHostPort(strings.Trim(url.Host, "[]"), port)
		}
		return "tcp://" + url.Host + url.Path, nil
	default:
		return "", fmt.Errorf("scheme %q is not known: use unix://, tcp:// or ssh://", url.Scheme)
	}
}

// fromContext reads a context, TLS material included, from Docker's store.
func fromContext(name, source, directory string) (endpoint, error) {
	contexts := store.New(filepath.Join(directory, "contexts"), store.NewConfig(
		func() any { return &map[string]any{} },
		store.EndpointTypeGetter(dockerendpoint.DockerEndpoint, func() any { return &dockerendpoint.EndpointMeta{} }),
	))
	fail := func(err error) (endpoint, error) {
		return endpoint{}, fmt.Errorf("docker context %q (from %s) in %s: %w; `docker context ls` lists what is there", name, source, directory, err)
	}
	metadata, err := contexts.GetMetadata(name)
	if errdefs.IsNotFound(err) {
		return endpoint{}, fmt.Errorf("there is no docker context %q (from %s) in %s; `docker context ls` lists what is there", name, source, directory)
	}
	if err != nil {
		return fail(err)
	}
	where, err := dockerendpoint.EndpointFromContext(metadata)
	if err != nil {
		return fail(err)
	}
	complete, err := dockerendpoint.WithTLSData(contexts, name, where)
	if err != nil {
		return fail(err)
	}
	address, err := normalize(complete.Host, complete.TLSData != nil)
	if err != nil {
		return fail(err)
	}
	complete.Host = address
	return endpoint{address: address, source: fmt.Sprintf("context %q", name), context: name, docker: complete}, nil
}

// configDirectory is where Docker's own configuration is.
func configDirectory(options Options) (string, error) {
	if options.ConfigDir != "" {
		return options.ConfigDir, nil
	}
	if directory := options.Env("DOCKER_CONFIG"); directory != "" {
		return directory, nil
	}
	home := options.Env("HOME")
	if home == "" {
		var err error
		if home, err = os.UserHomeDir(); err != nil {
			return "", fmt.Errorf("find Docker's configuration: %w; set DOCKER_CONFIG", err)
		}
	}
	return filepath.Join(home, ".docker"), nil
}
