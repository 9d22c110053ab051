package docker

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	dockercontext "github.com/docker/cli/cli/context"
	dockerendpoint "github.com/docker/cli/cli/context/docker"
	"github.com/docker/cli/cli/context/store"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/registryauth"
)

func environment(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

func addContext(t *testing.T, directory, name, host string, certificates *dockercontext.TLSData) {
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
		{name: "an unknown context", options: Options{Context: "nope", Source: "the inventory"}, fails: []string{`there is no docker context "nope" (from the inventory) in ` + plain + "; `docker context ls` lists what is there"}},
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
			directory := must.Get(configDirectory(c.options))(t)
			config := must.Get(registryauth.ConnectionOf(directory))(t)
			got, err := resolve(c.options, directory, config.CurrentContext)
			if c.fails != nil {
				checkError(t, err, nil, c.fails...)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got.address)
			assert.Equal(t, c.want, got.docker.Host, "address")
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
	info := must.Get(e.Info(t.Context()))(t)
	assert.True(t, info.Address == local.endpoint.address && !info.Remote && info.Name == "docker", "%+v", info)
}

func TestArchitectures(t *testing.T) {
	for machine, want := range map[string]string{"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386", "amd64": "amd64", "riscv64": "riscv64"} {
		assert.Equal(t, want, goarch(machine), machine)
	}
}

func TestInfoFails(t *testing.T) {
	e := open(t)
	e.endpoint.address = "unix:///gone.sock"
	gone := must.Get(client.New(client.WithHost("unix://" + filepath.Join(t.TempDir(), "gone.sock"))))(t)
	e.client, e.retryFor = gone, time.Millisecond
	_, err := e.Info(t.Context())
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

// dialStdio does what `docker system dial-stdio` does at the far end of an ssh
// connection: it joins stdin and stdout to the engine's socket.
func dialStdio(socket string) int {
	dialed, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	conn := dialed.(*net.UnixConn)
	go func() { _, _ = io.Copy(conn, os.Stdin); _ = conn.CloseWrite() }()
	_, _ = io.Copy(os.Stdout, conn)
	return 0
}

func TestUnreachable(t *testing.T) {
	directory := t.TempDir()
	dead := filepath.Join(directory, "dead.sock")
	listener := must.Get(net.Listen("unix", dead))(t)
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = listener.Close()
	noEngine := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(noEngine.Close)
	for _, c := range []struct {
		name, host string
		says       []string
	}{
		{"no socket", "unix://" + filepath.Join(directory, "none.sock"), []string{"no such file", "systemctl start docker", "DOCKER_HOST"}},
		{"a socket that nobody listens on", "unix://" + dead, []string{"connection refused", "systemctl start docker"}},
		{"a port that nobody listens on", "tcp://127.0.0.1:1", []string{"connection refused", "Check DOCKER_HOST"}},
		{"a host that does not exist", "tcp://engine.invalid:2375", []string{"engine.invalid", "check the host's name"}},
		{"something that is no Docker Engine", "tcp://" + strings.TrimPrefix(noEngine.URL, "http://"), []string{"404"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(t.Context(), Options{Host: c.host})
			checkError(t, err, engine.ErrUnavailable, append(c.says, c.host)...)
		})
	}
}

func TestUnansweredOpenIsCancelled(t *testing.T) {
	reached := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(reached)
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-reached; cancel() }()
	assert.ErrorIs(t, must.Fail(Open(ctx, Options{Host: "tcp://" + strings.TrimPrefix(silent.URL, "http://")})), context.Canceled)
}

// Root may open every socket, so the attempt is another user's.
func TestNoPermissionOnSocket(t *testing.T) {
	directory := must.Get(os.MkdirTemp("", ""))(t)
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	socket := filepath.Join(directory, "docker.sock")
	listener := must.Get(net.Listen("unix", socket))(t)
	t.Cleanup(func() { _ = listener.Close() })
	stranger := filepath.Join(directory, "stranger")
	for _, step := range []error{os.Chmod(directory, 0o755), os.Chmod(socket, 0), copyFile(stranger, "/proc/self/exe")} {
		require.NoError(t, step)
	}
	attempt := exec.Command(stranger, "unix://"+socket)
	attempt.Env = append(os.Environ(), actAs+"=open")
	attempt.Dir = "/"
	if os.Getuid() == 0 {
		attempt.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	output, err := attempt.CombinedOutput()
	require.NoError(t, err, "%s", output)
	for _, want := range []string{"true ", "permission denied", "unix://" + socket, "usermod -aG docker"} {
		assert.Contains(t, string(output), want, "%q does not say %q", output, want)
	}
}

func copyFile(to, from string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o755)
}

// Podman answers with another ID each time, by which no run would find its engine again.
func TestAnIDThatChangesIsNone(t *testing.T) {
	var asked atomic.Int64
	stable, forbidden := false, false
	answering := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.44")
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/info") {
			if forbidden {
				http.Error(w, `{"message": "Forbidden"}`, http.StatusForbidden)
				return
			}
			id := "one"
			if !stable {
				id = fmt.Sprint(asked.Add(1))
			}
			_, _ = fmt.Fprintf(w, `{"ID": %q, "Name": "host", "DockerRootDir": "/var/lib/containers"}`, id)
		}
	}))
	t.Cleanup(answering.Close)
	e := openWith(t, Options{Host: "tcp://" + strings.TrimPrefix(answering.URL, "http://")})
	for _, c := range []struct {
		stable bool
		want   string
	}{{false, ""}, {true, "one host /var/lib/containers"}} {
		stable = c.stable
		identity := must.Get(e.Identity(t.Context()))(t)
		assert.Equal(t, c.want, identity.ID, "ID %q; want %q", identity.ID, c.want)
	}
	forbidden = true
	assert.Empty(t, must.Get(e.Identity(t.Context()))(t).ID, "a proxy does not let it be asked")
	answering.Close()
	assert.Error(t, must.Fail(e.Identity(t.Context())))
}

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) *authority {
	a := &authority{}
	a.certificate = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = newKey(t)
	der := must.Get(x509.CreateCertificate(rand.Reader, a.certificate, a.certificate, &a.key.PublicKey, a.key))(t)
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	return must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

// issue signs a certificate for 127.0.0.1 that both sides may use.
func (a *authority) issue(t *testing.T) (certificate, key []byte) {
	own := newKey(t)
	der := must.Get(x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.certificate, &own.PublicKey, a.key))(t)
	encoded := must.Get(x509.MarshalECPrivateKey(own))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

func (a *authority) material(t *testing.T) *dockercontext.TLSData {
	certificate, key := a.issue(t)
	return &dockercontext.TLSData{CA: a.pem, Cert: certificate, Key: key}
}

func certificates(t *testing.T, material *dockercontext.TLSData) string {
	directory := t.TempDir()
	for name, content := range map[string][]byte{"ca.pem": material.CA, "cert.pem": material.Cert, "key.pem": material.Key} {
		if content == nil {
			continue
		}
		require.NoError(t, os.WriteFile(filepath.Join(directory, name), content, 0o600))
	}
	return directory
}

// serveTLS stands in front of the local engine as one that speaks TLS and wants
// certificates of its clients. It returns the address as HOST:PORT.
func serveTLS(t *testing.T, a *authority) string {
	socket := localSocket(t)
	certificate, key := a.issue(t)
	pair := must.Get(tls.X509KeyPair(certificate, key))(t)
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(a.pem)
	listener := must.Get(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: clients,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	}))(t)
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			served.Go(func() { relay(conn.(*tls.Conn), socket) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); served.Wait() })
	return listener.Addr().String()
}

// relay connects a client to the engine, both directions with their own ends.
func relay(conn *tls.Conn, socket string) {
	defer func() { _ = conn.Close() }()
	dialed, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	upstream := dialed.(*net.UnixConn)
	defer func() { _ = upstream.Close() }()
	var copied sync.WaitGroup
	copied.Go(func() { _, _ = io.Copy(upstream, conn); _ = upstream.CloseWrite() })
	copied.Go(func() {
		_, _ = io.Copy(conn, upstream)
		_ = conn.CloseWrite()
		_ = conn.Close() // the engine is done: so is the client
	})
	copied.Wait()
}

func localSocket(t *testing.T) string {
	path, ok := strings.CutPrefix(open(t).endpoint.address, "unix://")
	require.True(t, ok, "these tests need a Docker Engine behind a Unix socket")
	return path
}

func TestTLS(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	address := "tcp://" + serveTLS(t, ours)
	probe := loadProbe(t, open(t))
	material := ours.material(t)
	complete := certificates(t, material)
	inContext := dockerConfig(t, map[string]any{})
	addContext(t, inContext, "secure", address, material)
	for _, c := range []struct {
		name    string
		options Options
		env     map[string]string
		fails   []string // nil: it works
	}{
		{name: "certificates in DOCKER_CERT_PATH", env: map[string]string{"DOCKER_HOST": address, "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": complete}},
		{name: "certificates beside Docker's configuration", options: Options{ConfigDir: complete}, env: map[string]string{"DOCKER_HOST": address, "DOCKER_TLS_VERIFY": "1"}},
		{name: "a context with certificates", options: Options{ConfigDir: inContext, Context: "secure"}},
		{name: "files that are named", options: Options{Host: address, TLS: &TLS{
			CA: filepath.Join(complete, "ca.pem"), Cert: filepath.Join(complete, "cert.pem"), Key: filepath.Join(complete, "key.pem")}}},
		{name: "without verification any engine will do", env: map[string]string{"DOCKER_HOST": address, "DOCKER_TLS": "1",
			"DOCKER_CERT_PATH": certificates(t, &dockercontext.TLSData{Cert: material.Cert, Key: material.Key})}},
		{name: "an engine of another authority", fails: []string{address, "x509", "check the certificates"},
			env: map[string]string{"DOCKER_HOST": address, "DOCKER_TLS_VERIFY": "1",
				"DOCKER_CERT_PATH": certificates(t, &dockercontext.TLSData{CA: theirs.pem, Cert: material.Cert, Key: material.Key})}},
		{name: "no certificate of the client's", fails: []string{address, "certificate", "check the certificates"},
			env: map[string]string{"DOCKER_HOST": address, "DOCKER_TLS_VERIFY": "1",
				"DOCKER_CERT_PATH": certificates(t, &dockercontext.TLSData{CA: ours.pem})}},
		{name: "no TLS to an engine that wants it", env: map[string]string{"DOCKER_HOST": address}, fails: []string{address}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Env = environment(c.env)
			if c.options.ConfigDir == "" {
				c.options.ConfigDir = dockerConfig(t, map[string]any{})
			}
			if c.fails != nil {
				_, err := Open(t.Context(), c.options)
				checkError(t, err, engine.ErrUnavailable, c.fails...)
				return
			}
			checkRemote(t, openWith(t, c.options), probe, address)
		})
	}
}

func TestTLSFilesThatAreNotThere(t *testing.T) {
	const address = "tcp://127.0.0.1:1"
	_, err := Open(t.Context(), Options{Host: address, TLS: &TLS{CA: "nowhere.pem"}})
	assert.True(t, err != nil && strings.Contains(err.Error(), address) && strings.Contains(err.Error(), "nowhere.pem"), "%v", err)
}

// checkRemote runs the probe through a connection, with data both ways and a stdin that ends before the output does.
func checkRemote(t *testing.T, e *Engine, probe fixture, address string) {
	info := must.Get(e.Info(t.Context()))(t)
	assert.True(t, info.Address == address && info.Remote, "%+v, want a remote engine at %s", info, address)
	sent := strings.Repeat("through the wire\n", 50_000)
	var received strings.Builder
	exit := must.Get(e.Run(t.Context(), probe.spec("cat"), engine.IO{Stdin: strings.NewReader(sent), Stdout: &received}))(t)
	require.Equal(t, 0, exit.Code)
	assert.True(t, received.String() == sent, "sent %d bytes, received %d", len(sent), received.Len())
}

// An engine that wants a certificate refuses a client only after the handshake, and
// the request that is written meanwhile may fail first, in one of several ways.
func TestAdviceWhereTLSEndsEarly(t *testing.T) {
	secure := endpoint{address: "tcp://127.0.0.1:2376"}
	secure.docker.TLSData = &dockercontext.TLSData{}
	for _, err := range []error{net.ErrClosed, io.EOF, syscall.EPIPE, syscall.ECONNRESET, errors.New("write tcp: " + net.ErrClosed.Error())} {
		assert.Contains(t, secure.advice(err), "check the certificates", "%v", err)
		assert.NotContains(t, endpoint{address: "tcp://127.0.0.1:2375"}.advice(err), "certificate", "%v", err)
	}
	assert.NotContains(t, secure.advice(syscall.ECONNREFUSED), "certificate", "no connection was made")
}
