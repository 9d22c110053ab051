// Package sshdtest runs private ssh servers for tests: Debian's sshd, as the user of the test, and
// an ssh whose configuration is the test's.
package sshdtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Client is the side of a test: its first directory in PATH has an ssh with a configuration that
// the test writes.
type Client struct {
	Dir        string // with the key, the configuration, and the calls of ssh; its path is short
	User       string
	KnownHosts string // that the configuration names
}

// NewClient prepares a client whose configuration begins with these lines.
func NewClient(t *testing.T, lines ...string) *Client {
	ssh, err := exec.LookPath("ssh")
	require.NoError(t, err, "install openssh-client")
	who, err := user.Current()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "ssh") // the path of a socket must be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &Client{Dir: dir, User: who.Username}
	c.KnownHosts = filepath.Join(c.Dir, "known_hosts")
	bin := filepath.Join(c.Dir, "bin")
	require.NoError(t, os.Mkdir(bin, 0o700))
	script := fmt.Sprintf("#!/bin/sh\necho \"$*\" >>'%[2]s/calls'\nexec '%[1]s' -F '%[2]s/ssh_config' \"$@\"\n", ssh, c.Dir)
	require.NoError(t, os.WriteFile(filepath.Join(bin, "ssh"), []byte(script), 0o700)) //nolint:gosec // it is to be executed
	NewKey(t, filepath.Join(c.Dir, "key"), "ed25519")
	c.Configure(t, lines...)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("SSH_AUTH_SOCK", "")
	return c
}

// Calls returns the arguments of the ssh commands so far, but for those that only ask for settings.
func (c *Client) Calls() []string {
	content, _ := os.ReadFile(filepath.Join(c.Dir, "calls"))
	var calls []string
	for line := range strings.Lines(string(content)) {
		if !strings.HasPrefix(line, "-G ") {
			calls = append(calls, strings.TrimSpace(line))
		}
	}
	return calls
}

// Configure replaces the lines of the configuration.
func (c *Client) Configure(t *testing.T, lines ...string) {
	text := strings.Join(lines, "\n") + fmt.Sprintf("\nHost *\n  IdentityFile %[1]s/key\n  IdentitiesOnly yes\n  HashKnownHosts no\n  UserKnownHostsFile %[1]s/known_hosts\n  GlobalKnownHostsFile /dev/null\n", c.Dir)
	require.NoError(t, os.WriteFile(filepath.Join(c.Dir, "ssh_config"), []byte(text), 0o600))
}

// NewKey makes a key without a passphrase, in place of one that is there.
func NewKey(t *testing.T, path, kind string) {
	_ = os.Remove(path)
	out, err := exec.Command("ssh-keygen", "-q", "-t", kind, "-N", "", "-f", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// Program returns the path of sshd, which must be started by its whole path. Without one the test is skipped,
// and fails in CI.
func Program(t *testing.T) string {
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		sshd = "/usr/sbin/sshd"
	}
	if _, err := os.Stat(sshd); errors.Is(err, fs.ErrNotExist) {
		if os.Getenv("CI") == "" {
			t.Skip("there is no sshd: install openssh-server")
		}
		t.Fatal("there is no sshd, and CI has to run this test: install openssh-server")
	}
	if os.Geteuid() == 0 {
		require.NoError(t, os.MkdirAll("/run/sshd", 0o750))
	}
	return sshd
}

// WriteConfig writes the configuration of a server that the client's key opens, and returns its path. The
// first of several lines for one option counts.
func WriteConfig(t *testing.T, c *Client, dir string, lines ...string) string {
	lines = append(lines, "AuthorizedKeysFile "+filepath.Join(c.Dir, "key.pub"), "PasswordAuthentication no", "KbdInteractiveAuthentication no",
		"UsePAM no", "StrictModes no", "PermitRootLogin yes", "PidFile none")
	path := filepath.Join(dir, "sshd_config")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return path
}

// Server is an sshd that the client's key opens.
type Server struct {
	Dir  string
	Port string

	mu     sync.Mutex
	pass   int    // connections to come that the server takes
	drop   int    // those that it drops after them
	say    []byte // before it drops them
	logins int
	conns  map[net.Conn]bool
}

// Start starts a server with a key of these kinds (ed25519 without any). Each connection has an
// sshd process of its own, which ends with the test.
func Start(t *testing.T, c *Client, kinds ...string) *Server {
	sshd := Program(t)
	s := &Server{Dir: t.TempDir(), conns: map[net.Conn]bool{}}
	s.Keys(t, kinds...)
	WriteConfig(t, c, s.Dir, "Include "+filepath.Join(s.Dir, "keys"))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, s.Port, err = net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() { s.serve(sshd, conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.mu.Lock()
		for conn := range s.conns {
			_ = conn.Close()
		}
		s.conns = nil
		s.mu.Unlock()
		served.Wait()
	})
	return s
}

// Keys gives the server new keys of these kinds.
func (s *Server) Keys(t *testing.T, kinds ...string) {
	if len(kinds) == 0 {
		kinds = []string{"ed25519"}
	}
	var lines strings.Builder
	for _, kind := range kinds {
		path := filepath.Join(s.Dir, "host_"+kind)
		NewKey(t, path, kind)
		fmt.Fprintf(&lines, "HostKey %s\n", path)
	}
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir, "keys"), []byte(lines.String()), 0o600))
}

// Certify gives the server a certificate of an authority for its ed25519 key, with one name.
func (s *Server) Certify(t *testing.T, authority, name string) {
	key := filepath.Join(s.Dir, "host_ed25519")
	out, err := exec.Command("ssh-keygen", "-q", "-s", authority, "-h", "-I", name, "-n", name, key+".pub").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir, "keys"), fmt.Appendf(nil, "HostKey %[1]s\nHostCertificate %[1]s-cert.pub\n", key), 0o600))
}

// Fingerprint returns that of the server's key of a kind.
func (s *Server) Fingerprint(t *testing.T, kind string) string {
	out, err := exec.Command("ssh-keygen", "-lf", filepath.Join(s.Dir, "host_"+kind+".pub")).Output()
	require.NoError(t, err)
	return strings.Fields(string(out))[1]
}

// Drop ends so many of the next connections before a byte was sent, as sshd does that has too many.
func (s *Server) Drop(n int) { s.DropAfter(0, n, nil) }

// DropAfter takes so many of the next connections, and ends n after them, to which it says only this.
func (s *Server) DropAfter(taken, n int, say []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass, s.drop, s.say = taken, n, say
}

// Disconnect returns what a server says that refuses a connection with a text before it has shown a key.
func Disconnect(text string) []byte {
	const notAllowed, block = 1, 8
	payload := binary.BigEndian.AppendUint32([]byte{1}, notAllowed) // SSH_MSG_DISCONNECT
	payload = append(binary.BigEndian.AppendUint32(payload, uint32(len(text))), text...)
	payload = binary.BigEndian.AppendUint32(payload, 0) // no language
	padding := 2*block - (len(payload)+5)%block
	packet := binary.BigEndian.AppendUint32([]byte("SSH-2.0-test\r\n"), uint32(1+len(payload)+padding))
	return append(append(append(packet, byte(padding)), payload...), make([]byte, padding)...)
}

// Connections returns how many there were.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins
}

func (s *Server) serve(sshd string, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	s.mu.Lock()
	s.logins++
	dropped, say := false, s.say
	if s.pass > 0 {
		s.pass--
	} else if dropped = s.drop > 0; dropped {
		s.drop--
	}
	if s.conns != nil {
		s.conns[conn] = true
	} else {
		dropped = true
	}
	s.mu.Unlock()
	if dropped {
		if _, err := conn.Write(say); err == nil && len(say) > 0 {
			_, _ = io.Copy(io.Discard, conn) // what is not read would cut off what was said
		}
		return
	}
	file, err := conn.(*net.TCPConn).File()
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	c := exec.Command(sshd, "-i", "-q", "-f", filepath.Join(s.Dir, "sshd_config"))
	c.Stdin, c.Stdout = file, file
	_ = c.Run() // ends with the connection
}
