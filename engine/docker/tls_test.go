package docker

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	dockercontext "github.com/docker/cli/cli/context"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	a.certificate = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, a.certificate, a.certificate, &a.key.PublicKey, a.key)
	require.NoError(t, err)
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

// issue signs a certificate for 127.0.0.1 that both sides may use.
func (a *authority) issue(t *testing.T) (certificate, key []byte) {
	t.Helper()
	own := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.certificate, &own.PublicKey, a.key)
	require.NoError(t, err)
	encoded, err := x509.MarshalECPrivateKey(own)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

// material is what a client of the authority's engine needs.
func (a *authority) material(t *testing.T) *dockercontext.TLSData {
	t.Helper()
	certificate, key := a.issue(t)
	return &dockercontext.TLSData{CA: a.pem, Cert: certificate, Key: key}
}

// certificates writes material into a directory as DOCKER_CERT_PATH has it.
func certificates(t *testing.T, material *dockercontext.TLSData) string {
	t.Helper()
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
	t.Helper()
	socket := localSocket(t)
	certificate, key := a.issue(t)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(a.pem)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: clients,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	})
	require.NoError(t, err)
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
	t.Cleanup(func() {
		_ = listener.Close()
		served.Wait()
	})
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
	copied.Go(func() {
		_, _ = io.Copy(upstream, conn)
		_ = upstream.CloseWrite()
	})
	copied.Go(func() {
		_, _ = io.Copy(conn, upstream)
		_ = conn.CloseWrite()
		_ = conn.Close() // the engine is done: so is the client
	})
	copied.Wait()
}

// localSocket is where the engine of the tests listens.
func localSocket(t *testing.T) string {
	t.Helper()
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

// checkRemote runs the probe through a connection, with data both ways and a
// stdin that ends before the output does.
func checkRemote(t *testing.T, e *Engine, probe fixture, address string) {
	t.Helper()
	info, err := e.Info(t.Context())
	require.NoError(t, err)
	assert.True(t, info.Address == address && info.Remote, "%+v, want a remote engine at %s", info, address)
	sent := strings.Repeat("through the wire\n", 50_000)
	var received strings.Builder
	exit, err := e.Run(t.Context(), probe.spec("cat"), engine.IO{Stdin: strings.NewReader(sent), Stdout: &received})
	require.True(t, err == nil && exit.Code == 0, "exit %+v, error %v", exit, err)
	assert.True(t, received.String() == sent, "sent %d bytes, received %d", len(sent), received.Len())
}
