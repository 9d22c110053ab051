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

	"github.com/deployster-go/deployster/internal/listen"
)

func open(t *testing.T, o listen.Options) []net.Listener {
	t.Helper()
	all, err := listen.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
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
		if refused := errors.Is(err, listen.ErrInsecure); refused != c.refused || refused == (err == nil) {
			t.Errorf("%q, insecure %v: %v", c.address, c.insecure, err)
		}
		if err != nil && all != nil {
			t.Errorf("%q: %d listeners stay open", c.address, len(all))
		}
		for _, l := range all {
			_ = l.Close()
		}
	}
}

func TestAnAddressThatIsTakenIsSaidToBe(t *testing.T) {
	first := open(t, listen.Options{Addresses: []string{"127.0.0.1:0"}})
	if _, err := listen.Open(t.Context(), listen.Options{Addresses: []string{first[0].Addr().String()}}); err == nil || !strings.Contains(err.Error(), "use another port") {
		t.Error(err)
	}
}

// A socket that a killed process left is replaced. One that is listened on is not, nor is
// anything else that lies there.
func TestASocketIsReplacedOnlyWhereNobodyListens(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "socket")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	if _, err := listen.Open(t.Context(), listen.Options{Sockets: []string{path}}); err == nil || !strings.Contains(err.Error(), "another process does so already") {
		t.Errorf("one that is listened on: %v", err)
	}
	_ = left.Close()
	all := open(t, listen.Options{Sockets: []string{path}})
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("others may not connect: %v %v", info, err)
	}
	_ = all[0].Close()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is left behind: %v", err)
	}
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("text"), 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	for _, taken := range []string{file, link, dir, filepath.Join(dir, "none", "socket")} {
		if _, err := listen.Open(t.Context(), listen.Options{Sockets: []string{taken}}); err == nil {
			t.Errorf("%s was replaced", taken)
		}
	}
	if text, err := os.ReadFile(file); string(text) != "text" {
		t.Errorf("the file holds %q: %v", text, err)
	}
}

// A server that ends removes no socket but its own.
func TestASocketOfAnotherOneStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	former := open(t, listen.Options{Sockets: []string{path}})[0]
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	other := open(t, listen.Options{Sockets: []string{path}})[0]
	for range 2 {
		_ = former.Close()
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the end of a former server has cut off the one that came after it: %v", err)
	}
	_ = c.Close()
	_ = other.Close()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its own socket stays: %v", err)
	}
}

// Of servers that start at once on a socket which a killed one left, one listens, and can be
// reached; none removes the socket of another.
func TestOfServersThatStartAtOnceOneListens(t *testing.T) {
	for round := range 50 {
		path := filepath.Join(t.TempDir(), "socket")
		left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err != nil {
			t.Fatal(err)
		}
		left.SetUnlinkOnClose(false)
		_ = left.Close()
		var starting sync.WaitGroup
		opened := make([][]net.Listener, 4)
		for i := range opened {
			starting.Go(func() { opened[i], _ = listen.Open(t.Context(), listen.Options{Sockets: []string{path}}) })
		}
		starting.Wait()
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatalf("round %d: nobody is reached: %v", round, err)
		}
		_ = c.Close()
		n := 0
		for _, all := range opened {
			for _, l := range all {
				n++
				_ = l.Close()
			}
		}
		if n != 1 {
			t.Fatalf("round %d: %d listen", round, n)
		}
	}
}

// certificate makes a certificate of a name, and writes it with its key.
func certificate(t *testing.T, name string, f listen.Files) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name}}
	made, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.WriteFile(f.Certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made}), 0o600),
		os.WriteFile(f.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600),
	); err != nil {
		t.Fatal(err)
	}
}

// A certificate that changes serves those that connect later. As long as the new one cannot
// be read, as between the writing of its two files, the former one serves on.
func TestACertificateMayChangeWhileItIsServed(t *testing.T) {
	dir := t.TempDir()
	f := listen.Files{Certificate: filepath.Join(dir, "crt"), Key: filepath.Join(dir, "key")}
	certificate(t, "first", f)
	var said bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&said, nil))
	served, err := listen.NewTLS(f, logger)
	if err != nil {
		t.Fatal(err)
	}
	l := open(t, listen.Options{Addresses: []string{"127.0.0.1:0"}, TLS: served, Logger: logger})[0]
	want := func(name string) {
		t.Helper()
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
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.(*tls.Conn).Handshake(); err != nil {
			t.Fatal(err)
		}
		if got := <-shown; got != name {
			t.Errorf("the certificate is that of %s, not of %s\n%s", got, name, &said)
		}
		_ = c.Close()
	}
	want("first")
	if err := os.WriteFile(f.Key, []byte("half a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	want("first")
	want("first")
	if n := strings.Count(said.String(), "the former certificate serves on"); n != 1 {
		t.Errorf("it was said %d times:\n%s", n, &said)
	}
	if err := errors.Join(os.Remove(f.Key), syscall.Mkfifo(f.Key, 0o600)); err != nil {
		t.Fatal(err)
	}
	want("first") // nobody waits for who would write to a pipe
	if !strings.Contains(said.String(), f.Key+": it is a FIFO, not a file") {
		t.Error(&said)
	}
	if err := os.Remove(f.Key); err != nil {
		t.Fatal(err)
	}
	certificate(t, "second", f)
	want("second")
}

func TestFilesOfTLSThatAreOfNoUseAreRefused(t *testing.T) {
	dir := t.TempDir()
	f := listen.Files{Certificate: filepath.Join(dir, "crt"), Key: filepath.Join(dir, "key")}
	certificate(t, "first", f)
	large, empty := filepath.Join(dir, "large"), filepath.Join(dir, "empty")
	if err := errors.Join(os.WriteFile(large, make([]byte, 1<<20+1), 0o600), os.WriteFile(empty, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []listen.Files{
		{Certificate: f.Certificate, Key: f.Certificate},
		{Certificate: filepath.Join(dir, "none"), Key: f.Key},
		{Certificate: large, Key: f.Key},
		{Certificate: f.Certificate, Key: f.Key, ClientCA: empty},
		{Certificate: dir, Key: f.Key},
	} {
		if _, err := listen.NewTLS(wrong, nil); err == nil {
			t.Errorf("%+v are taken", wrong)
		}
	}
}
