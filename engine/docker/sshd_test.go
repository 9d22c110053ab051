package docker

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/sshdtest"
	"github.com/deployster-go/deployster/internal/waittest"
)

// sshd is a private ssh server on loopback that the user of the test may log in to, and the
// configuration of the ssh command that knows it. Its configuration is lines of the test
// before the defaults.
type sshd struct {
	t       *testing.T
	dir     string // of its own
	client  *sshdtest.Client
	port    int
	lines   []string
	process *exec.Cmd
	ended   chan struct{}
	log     *serverLog
}

// startSSHD starts a server, and puts an ssh command in PATH that uses a configuration of the test.
// Lines go into sshd_config.
func startSSHD(t *testing.T, lines ...string) *sshd {
	t.Helper()
	client := sshdtest.NewClient(t)
	t.Setenv("XDG_RUNTIME_DIR", client.Dir)
	return (&sshd{t: t, client: client}).beside(lines...)
}

// beside starts another server that the same ssh command knows.
func (s *sshd) beside(lines ...string) *sshd {
	other := &sshd{t: s.t, dir: must.Get(os.MkdirTemp("", "sshd"))(s.t), client: s.client, lines: lines}
	s.t.Cleanup(func() { _ = os.RemoveAll(other.dir) })
	other.changeKey()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(s.t)
	other.port = listener.Addr().(*net.TCPAddr).Port
	require.NoError(s.t, listener.Close())
	other.start()
	other.know()
	return other
}

// configure writes the configuration of the ssh command: lines before the defaults.
func (s *sshd) configure(lines ...string) { s.client.Configure(s.t, lines...) }

// know has the ssh command know the host key, in addition to those it knows.
func (s *sshd) know() {
	public := string(must.Get(os.ReadFile(filepath.Join(s.dir, "host.pub")))(s.t))
	known := must.Get(os.OpenFile(s.client.KnownHosts, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))(s.t)
	must.Get(fmt.Fprintf(known, "[127.0.0.1]:%d %s", s.port, public))(s.t)
	require.NoError(s.t, known.Close())
}

// changeKey gives the server another host key from its next start on.
func (s *sshd) changeKey() { sshdtest.NewKey(s.t, filepath.Join(s.dir, "host"), "ed25519") }

func (s *sshd) start() {
	lines := append(append([]string(nil), s.lines...), fmt.Sprintf("Port %d", s.port), "ListenAddress 127.0.0.1", "HostKey "+filepath.Join(s.dir, "host"), "LogLevel VERBOSE")
	file := sshdtest.WriteConfig(s.t, s.client, s.dir, lines...)
	if s.log == nil {
		s.log = &serverLog{}
	}
	before := s.log.count("Server listening on ")
	process := exec.Command(sshdtest.Program(s.t), "-D", "-e", "-f", file)
	process.Stderr = s.log
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	s.process, s.ended = process, make(chan struct{})
	started := make(chan error)
	go func(ended chan struct{}) {
		runtime.LockOSThread() // see startSSH
		defer runtime.UnlockOSThread()
		err := process.Start()
		started <- err
		if err == nil {
			_ = process.Wait()
		}
		close(ended)
	}(s.ended)
	require.NoError(s.t, <-started)
	s.t.Cleanup(func() { s.halt() })
	waittest.Until(s.t, func() bool {
		select {
		case <-s.ended:
			s.t.Fatalf("sshd ended:\n%s", s.log.text())
		default:
		}
		return s.log.count("Server listening on ") > before
	}, "sshd listens")
}

// halt ends the server with its sessions.
func (s *sshd) halt() {
	s.killSessions()
	_ = s.process.Process.Kill()
	// What a session prints goes to the same pipe, so the end of the process is what counts.
	waittest.Until(s.t, func() bool { return s.process.Process.Signal(syscall.Signal(0)) != nil }, "sshd ends")
}

// restart ends the server with its sessions, and starts it with the configuration and key of now.
func (s *sshd) restart() {
	s.halt()
	s.start()
}

// sessions are the processes that serve connections.
func (s *sshd) sessions() []int {
	var found []int
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		name, rest, _ := strings.Cut(string(content), ") ")
		fields := strings.Fields(rest)
		if len(fields) > 1 && strings.HasSuffix(name, "(sshd") && fields[1] == strconv.Itoa(s.process.Process.Pid) {
			pid, _, _ := strings.Cut(name, " ")
			found = append(found, must.Get(strconv.Atoi(pid))(s.t))
		}
	}
	return found
}

// signal sends a signal to all sessions.
func (s *sshd) signal(to syscall.Signal) {
	for _, pid := range s.sessions() {
		_ = syscall.Kill(pid, to)
	}
}

// killSessions kills all sessions. The server goes on.
func (s *sshd) killSessions() { s.signal(syscall.SIGKILL) }

// logins counts the logins that succeeded.
func (s *sshd) logins() int { return s.log.count("Accepted publickey for ") }

// address is that of the Docker Engine behind the server.
func (s *sshd) address() string {
	return fmt.Sprintf("ssh://%s@127.0.0.1:%d", must.Get(user.Current())(s.t).Username, s.port)
}

// dockerCommand puts a docker command at the far side that connects to the local engine: lines
// for sshd_config. Before it, the command runs what a start-up file of a shell might.
func dockerCommand(t *testing.T, before string) string {
	bin := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n%s\n%s=dial-stdio exec '%s' '%s'\n", before, actAs, must.Get(os.Executable())(t), localSocket(t))
	require.NoError(t, os.WriteFile(filepath.Join(bin, "docker"), []byte(script), 0o755))
	return "SetEnv PATH=" + bin + ":/usr/bin:/bin"
}

// serverLog is what a server has printed.
type serverLog struct {
	mu   sync.Mutex
	kept bytes.Buffer
}

// Write implements io.Writer.
func (l *serverLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept.Write(p)
}

func (l *serverLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept.String()
}

func (l *serverLog) count(text string) int { return strings.Count(l.text(), text) }
