package docker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	dockercontext "github.com/docker/cli/cli/context"
	dockerendpoint "github.com/docker/cli/cli/context/docker"
	"github.com/docker/cli/cli/context/store"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/registryauth"
)

// environment is a process environment of the test's own.
func environment(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

// addContext writes a docker context into a configuration directory.
func addContext(t *testing.T, directory, name, host string, certificates *dockercontext.TLSData) {
	t.Helper()
	contexts := store.New(filepath.Join(directory, "contexts"), store.NewConfig(
		func() any { return &map[string]any{} },
		store.EndpointTypeGetter(dockerendpoint.DockerEndpoint, func() any { return &dockerendpoint.EndpointMeta{} }),
	))
	err := contexts.CreateOrUpdate(store.Metadata{
		Name:      name,
		Metadata:  map[string]any{},
		Endpoints: map[string]any{dockerendpoint.DockerEndpoint: dockerendpoint.EndpointMeta{Host: host}},
	})
	if err == nil && certificates != nil {
		err = contexts.ResetEndpointTLSMaterial(name, dockerendpoint.DockerEndpoint, certificates.ToStoreTLSData())
	}
	require.NoError(t, err)
}

func TestWhichEngine(t *testing.T) {
	plain := dockerConfig(t, map[string]any{})
	withCurrent := dockerConfig(t, map[string]any{"currentContext": "current"})
	for _, directory := range []string{plain, withCurrent} {
		addContext(t, directory, "current", "unix:///current.sock", nil)
		addContext(t, directory, "other", "tcp://other.example", nil)
		addContext(t, directory, "odd", "gopher://odd.example", nil)
	}
	for _, c := range []struct {
		name    string
		options Options
		env     map[string]string
		want    string
		fails   []string
	}{
		{name: "nothing said", want: client.DefaultDockerHost},
		{name: "a host", options: Options{Host: "unix:///a.sock"}, want: "unix:///a.sock"},
		{name: "a host goes before everything", options: Options{Host: "unix:///a.sock", ConfigDir: withCurrent},
			env: map[string]string{"DOCKER_HOST": "unix:///b.sock", "DOCKER_CONTEXT": "other"}, want: "unix:///a.sock"},
		{name: "a context goes before the environment", options: Options{Context: "other"},
			env: map[string]string{"DOCKER_HOST": "unix:///b.sock"}, want: "tcp://other.example:2375"},
		{name: "DOCKER_HOST goes before DOCKER_CONTEXT", env: map[string]string{"DOCKER_HOST": "unix:///b.sock", "DOCKER_CONTEXT": "other"}, want: "unix:///b.sock"},
		{name: "DOCKER_CONTEXT goes before the current one", options: Options{ConfigDir: withCurrent}, env: map[string]string{"DOCKER_CONTEXT": "other"}, want: "tcp://other.example:2375"},
		{name: "the current context", options: Options{ConfigDir: withCurrent}, want: "unix:///current.sock"},
		{name: "DOCKER_CONFIG names the directory", options: Options{ConfigDir: "-"}, env: map[string]string{"DOCKER_CONFIG": withCurrent}, want: "unix:///current.sock"},
		{name: "the context called default is none", options: Options{Context: "default", ConfigDir: withCurrent}, want: client.DefaultDockerHost},
		{name: "the context called default is DOCKER_HOST", options: Options{Context: "default"}, env: map[string]string{"DOCKER_HOST": "unix:///b.sock"}, want: "unix:///b.sock"},
		{name: "no scheme is TCP", options: Options{Host: "192.0.2.1"}, want: "tcp://192.0.2.1:2375"},
		{name: "IPv6", options: Options{Host: "tcp://[2001:db8::1]"}, want: "tcp://[2001:db8::1]:2375"},
		{name: "a port is kept", options: Options{Host: "tcp://engine.example:1234"}, want: "tcp://engine.example:1234"},
		{name: "ssh", options: Options{Host: "ssh://somebody@engine.example:22"}, want: "ssh://somebody@engine.example:22"},

		{name: "host and context", options: Options{Host: "unix:///a.sock", Context: "other"}, fails: []string{"choose one"}},
		{name: "an unknown context", options: Options{Context: "nope"}, fails: []string{`"nope"`, plain, "docker context ls"}},
		{name: "an unknown context in the environment", env: map[string]string{"DOCKER_CONTEXT": "nope"}, fails: []string{`"nope"`, "DOCKER_CONTEXT"}},
		{name: "an unknown scheme", options: Options{Host: "gopher://engine.example"}, fails: []string{"gopher", "tcp://"}},
		{name: "an unknown scheme in a context", options: Options{Context: "odd"}, fails: []string{`"odd"`, "gopher"}},
		{name: "no address at all", options: Options{Host: "unix://"}, fails: []string{"unix://"}},
		{name: "TLS without certificates", options: Options{Host: "tcp://engine.example"}, env: map[string]string{"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/no/such"},
			fails: []string{"/no/such/ca.pem", "DOCKER_CERT_PATH"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Env = environment(c.env)
			switch c.options.ConfigDir {
			case "":
				c.options.ConfigDir = plain
			case "-":
				c.options.ConfigDir = ""
			}
			directory, err := configDirectory(c.options)
			require.NoError(t, err)
			config, err := registryauth.ConnectionOf(directory)
			require.NoError(t, err)
			got, err := resolve(c.options, directory, config.CurrentContext)
			if c.fails != nil {
				checkError(t, err, nil, c.fails...)
				return
			}
			require.NoError(t, err)
			if got.address != c.want || got.docker.Host != c.want {
				t.Errorf("address %q, client's host %q, want %q", got.address, got.docker.Host, c.want)
			}
		})
	}
}

func TestBrokenConfiguration(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "config.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"auths": `), 0o600))
	_, err := Open(t.Context(), Options{ConfigDir: directory})
	checkError(t, err, nil, file)
}

func TestOpenByContext(t *testing.T) {
	local := open(t)
	directory := dockerConfig(t, map[string]any{"currentContext": "here"})
	addContext(t, directory, "here", local.endpoint.address, nil)
	e := openWith(t, Options{ConfigDir: directory, Env: environment(nil)})
	info, err := e.Info(t.Context())
	require.NoError(t, err)
	assert.True(t, info.Address == local.endpoint.address && !info.Remote && info.Name == "docker", "%+v", info)
}

func TestArchitectures(t *testing.T) {
	for machine, want := range map[string]string{"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386", "amd64": "amd64", "riscv64": "riscv64"} {
		if got := goarch(machine); got != want {
			t.Errorf("%s is %s, want %s", machine, got, want)
		}
	}
}

func TestInfoFails(t *testing.T) {
	e := open(t)
	e.endpoint.address = "unix:///gone.sock"
	gone, err := client.New(client.WithHost("unix://" + filepath.Join(t.TempDir(), "gone.sock")))
	require.NoError(t, err)
	e.client = gone
	_, err = e.Info(t.Context())
	checkError(t, err, engine.ErrUnavailable, "systemctl start docker")
	for what, err := range map[string]error{
		"Containers": second(e.Containers(t.Context(), nil)),
		"Wait":       second(e.Wait(t.Context(), "x")),
		"Remove":     e.Remove(t.Context(), "x"),
		"Image":      second(e.Image(t.Context(), "x", engine.PullMissing, nil)),
		"pull":       second(e.Image(t.Context(), "x", engine.PullAlways, nil)),
		"Load":       e.Load(t.Context(), strings.NewReader("")),
		"Run":        second(e.Run(t.Context(), engine.Spec{Image: "x"}, engine.IO{})),
	} {
		t.Run(what, func(t *testing.T) { checkError(t, err, engine.ErrUnavailable, "DOCKER_HOST") })
	}
}

func second[T any](_ T, err error) error { return err }
