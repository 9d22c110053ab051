package listen_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/listen"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
)

func open(t *testing.T, o listen.Options) []net.Listener {
	all := must.Get(listen.Open(t.Context(), o))(t)
	t.Cleanup(func() {
		for _, l := range all {
			_ = l.Close()
		}
	})
	return all
}

func TestOnlyThisMachineIsListenedToInPlainText(t *testing.T) {
	for _, c := range []struct {
		address  string
		insecure bool
		refused  bool
	}{
		{address: "127.0.0.1:0"},
		{address: "localhost:0"},
		{address: "0.0.0.0:0", refused: true},
		{address: ":0", refused: true},
		{address: "[::]:0", refused: true},
		{address: "0.0.0.0:0", insecure: true},
	} {
		all, err := listen.Open(t.Context(), listen.Options{Addresses: []string{"127.0.0.1:0", c.address}, Insecure: c.insecure})
		refused := errors.Is(err, listen.ErrInsecure)
		assert.True(t, refused == c.refused && refused != (err == nil), "%q, insecure %v: %v", c.address, c.insecure, err)
		assert.True(t, err == nil || all == nil, "%q: %d listeners stay open", c.address, len(all))
		for _, l := range all {
			_ = l.Close()
		}
	}
}

func TestAnAddressThatIsTakenIsSaidToBe(t *testing.T) {
	first := open(t, listen.Options{Addresses: []string{"127.0.0.1:0"}})
	assert.ErrorContains(t, must.Fail(listen.Open(t.Context(), listen.Options{Addresses: []string{first[0].Addr().String()}})), "use another port")
}

func TestASocketIsReplacedOnlyWhereNobodyListens(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "socket")
	left := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: path}))(t)
	left.SetUnlinkOnClose(false)
	assert.ErrorContains(t, must.Fail(listen.Open(t.Context(), listen.Options{Sockets: []string{path}})), "another process does so already", "one that is listened on")
	_ = left.Close()
	all := open(t, listen.Options{Sockets: []string{path}})
	info, err := os.Stat(path)
	assert.True(t, err == nil && info.Mode().Perm() == 0o666, "others may not connect: %v %v", info, err)
	_ = all[0].Close()
	assert.ErrorIs(t, must.Fail(os.Lstat(path)), fs.ErrNotExist, "it is left behind")
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	require.NoError(t, errors.Join(os.WriteFile(file, []byte("text"), 0o600), os.Symlink(file, link)))
	for _, taken := range []string{file, link, dir, filepath.Join(dir, "none", "socket")} {
		assert.Error(t, must.Fail(listen.Open(t.Context(), listen.Options{Sockets: []string{taken}})), "%s was replaced", taken)
	}
	text, err := os.ReadFile(file)
	assert.True(t, string(text) == "text", "the file holds %q: %v", text, err)
}

func TestASocketOfAnotherOneStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	former := open(t, listen.Options{Sockets: []string{path}})[0]
	require.NoError(t, os.Remove(path))
	other := open(t, listen.Options{Sockets: []string{path}})[0]
	for range 2 {
		_ = former.Close()
	}
	c, err := net.Dial("unix", path)
	require.NoError(t, err, "the end of a former server has cut off the one that came after it")
	_ = c.Close()
	_ = other.Close()
	assert.ErrorIs(t, must.Fail(os.Lstat(path)), os.ErrNotExist, "its own socket stays")
}

func TestOfServersThatStartAtOnceOneListens(t *testing.T) {
	for round := range ringtest.Cases(15, 50) {
		path := filepath.Join(t.TempDir(), "socket")
		left := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: path}))(t)
		left.SetUnlinkOnClose(false)
		_ = left.Close()
		var starting sync.WaitGroup
		opened := make([][]net.Listener, 4)
		for i := range opened {
			starting.Go(func() { opened[i], _ = listen.Open(t.Context(), listen.Options{Sockets: []string{path}}) })
		}
		starting.Wait()
		c, err := net.Dial("unix", path)
		require.NoError(t, err, "round %d: nobody is reached", round)
		_ = c.Close()
		n := 0
		for _, all := range opened {
			for _, l := range all {
				n++
				_ = l.Close()
			}
		}
		require.Equal(t, 1, n, "round %d: %d listen", round, n)
	}
}

// certificate makes a certificate of a name, and writes it with its key.
func certificate(t *testing.T, name string, f listen.Files) {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name}}
	made := must.Get(x509.CreateCertificate(rand.Reader, of, of, key.Public(), key))(t)
	secret := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	require.NoError(t, errors.Join(
		os.WriteFile(f.Certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made}), 0o600),
		os.WriteFile(f.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600),
	))
}

// A certificate that changes serves those that connect later. As long as the new one cannot
// be read, as between the writing of its two files, the former one serves on.
func TestACertificateMayChangeWhileItIsServed(t *testing.T) {
	dir := t.TempDir()
	f := listen.Files{Certificate: filepath.Join(dir, "crt"), Key: filepath.Join(dir, "key")}
	certificate(t, "first", f)
	var said bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&said, nil))
	served := must.Get(listen.NewTLS(f, logger))(t)
	l := open(t, listen.Options{Addresses: []string{"127.0.0.1:0"}, TLS: served, Logger: logger})[0]
	want := func(name string) {
		shown := make(chan string, 1)
		go func() {
			c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				shown <- err.Error()
				return
			}
			shown <- c.ConnectionState().PeerCertificates[0].Subject.CommonName
			_ = c.Close()
		}()
		c := must.Get(l.Accept())(t)
		require.NoError(t, c.(*tls.Conn).Handshake())
		got := <-shown
		assert.True(t, got == name, "the certificate is that of %s, not of %s\n%s", got, name, &said)
		_ = c.Close()
	}
	want("first")
	require.NoError(t, os.WriteFile(f.Key, []byte("half a key"), 0o600))
	want("first")
	want("first")
	n := strings.Count(said.String(), "the former certificate serves on")
	assert.True(t, n == 1, "it was said %d times:\n%s", n, &said)
	require.NoError(t, errors.Join(os.Remove(f.Key), syscall.Mkfifo(f.Key, 0o600)))
	want("first") // nobody waits for who would write to a pipe
	assert.Contains(t, said.String(), f.Key+": it is a FIFO, not a file", "%v", &said)
	require.NoError(t, os.Remove(f.Key))
	certificate(t, "second", f)
	want("second")
}

func TestFilesOfTLSThatAreOfNoUseAreRefused(t *testing.T) {
	dir := t.TempDir()
	f := listen.Files{Certificate: filepath.Join(dir, "crt"), Key: filepath.Join(dir, "key")}
	certificate(t, "first", f)
	large, empty := filepath.Join(dir, "large"), filepath.Join(dir, "empty")
	require.NoError(t, errors.Join(os.WriteFile(large, make([]byte, 1<<20+1), 0o600), os.WriteFile(empty, nil, 0o600)))
	for _, wrong := range []listen.Files{
		{Certificate: f.Certificate, Key: f.Certificate},
		{Certificate: filepath.Join(dir, "none"), Key: f.Key},
		{Certificate: large, Key: f.Key},
		{Certificate: f.Certificate, Key: f.Key, ClientCA: empty},
		{Certificate: dir, Key: f.Key},
	} {
		assert.Error(t, must.Fail(listen.NewTLS(wrong, nil)), "%+v are taken", wrong)
	}
}
