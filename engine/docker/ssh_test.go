package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
)

// burst asks an engine many things at once.
func burst(t *testing.T, e *Engine) {
	var group sync.WaitGroup
	for range 30 {
		group.Go(func() {
			_, err := e.Info(t.Context())
			assert.NoError(t, err)
		})
	}
	group.Wait()
}

// One login and one process serve an engine, however much goes through it, also where a server
// takes one session a connection.
func TestSSHLogsInOnce(t *testing.T) {
	server := startSSHD(t, "MaxSessions 1")
	address := server.address()
	probe := loadProbe(t, open(t))
	tunnels := NewTunnels(nil)
	for range 2 {
		e := must.Get(Open(t.Context(), Options{Host: address, Tunnels: tunnels}))(t)
		assert.Equal(t, "ssh, forwarded socket", e.Route())
		burst(t, e)
		checkRemote(t, e, probe, address)
		require.NoError(t, e.Close())
	}
	assert.Empty(t, open(t).Route(), "a local engine")
	assert.Equal(t, 1, server.logins(), "logins")
	assert.Len(t, server.client.Calls(), 1, "ssh commands")
	require.NoError(t, tunnels.Close())
	waittest.Until(t, func() bool { return len(server.sessions()) == 0 }, "the server notices the end")
	assert.Empty(t, must.Get(filepath.Glob(filepath.Join(server.client.Dir, socketPrefix+"*")))(t), "directories of sockets")
}

func TestSSHContext(t *testing.T) {
	server := startSSHD(t)
	inContext := dockerConfig(t, map[string]any{})
	addContext(t, inContext, "far", server.address()+localSocket(t), nil)
	e := openWith(t, Options{ConfigDir: inContext, Context: "far"})
	burst(t, e)
	assert.Contains(t, must.Get(e.Identity(t.Context()))(t).Context, "far")
}

// Where the server forbids to forward, the docker command at the far side connects.
func TestSSHWithoutForwarding(t *testing.T) {
	probe := loadProbe(t, open(t))
	for name, lines := range map[string][]string{
		"sockets are not forwarded":    {"AllowStreamLocalForwarding no"},
		"one session a connection":     {"DisableForwarding yes", "MaxSessions 1"},
		"the start-up file is chatty":  {"DisableForwarding yes"},
		"the socket is somewhere else": {},
	} {
		t.Run(name, func(t *testing.T) {
			before, path := "", ""
			if strings.Contains(name, "chatty") {
				before = "echo Welcome; echo to this machine"
			}
			if strings.Contains(name, "else") {
				path = "/no/such/docker.sock"
			}
			server := startSSHD(t, append(lines, dockerCommand(t, before))...)
			address := server.address() + path
			e := openWith(t, Options{Host: address})
			assert.Equal(t, "ssh, docker command", e.Route())
			checkRemote(t, e, probe, address)
			burst(t, e)
			if !strings.Contains(name, "session") {
				assert.Equal(t, 1, server.logins(), "logins: sessions share one")
			}
		})
	}
}

// A server that drops logins of which too many are under way is waited for.
func TestSSHWaitsForItsTurn(t *testing.T) {
	server := startSSHD(t, "MaxStartups 2:50:4")
	lines := []string{}
	for i := range 30 {
		lines = append(lines, fmt.Sprintf("Host w%d", i), "  HostName 127.0.0.1", fmt.Sprintf("  Port %d", server.port))
	}
	server.configure(lines...)
	tunnels := NewTunnels(nil)
	defer func() { assert.NoError(t, tunnels.Close()) }()
	var group sync.WaitGroup
	for i := range 30 {
		group.Go(func() {
			e, err := Open(t.Context(), Options{Host: fmt.Sprintf("ssh://w%d", i), Tunnels: tunnels})
			if assert.NoError(t, err) {
				assert.NoError(t, e.Close())
			}
		})
	}
	group.Wait()
	assert.Equal(t, 30, server.logins(), "logins")
}

// A connection that breaks is made again by the next request, also if the server is away for a while.
func TestSSHLogsInAgain(t *testing.T) {
	server := startSSHD(t)
	e := openWith(t, Options{Host: server.address()})
	server.killSessions()
	waittest.Until(t, func() bool { _, err := e.Info(t.Context()); return err == nil }, "the engine answers again")
	assert.Equal(t, 2, server.logins(), "logins")
	server.halt()
	answered := make(chan error)
	go func() {
		for {
			_, err := e.Info(t.Context())
			if err == nil || errors.Is(err, context.Canceled) {
				answered <- err
				return
			}
		}
	}()
	server.start()
	assert.NoError(t, waittest.Receive(t, answered, "an answer after the restart"))
	assert.Equal(t, 3, server.logins(), "logins")
}

// What is read is not taken for complete if the connection has broken.
func TestSSHBreaksUnderAStream(t *testing.T) {
	server := startSSHD(t)
	probe := loadProbe(t, open(t))
	e := openWith(t, Options{Host: server.address()})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	conn := must.Get(e.tunnel.dial(ctx))(t)
	defer conn.Close()
	must.Get(io.WriteString(conn, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
	must.Get(conn.Read(make([]byte, 1<<10)))(t)
	server.killSessions()
	_, err := io.Copy(io.Discard, conn)
	var dialed *dialError
	require.ErrorAs(t, err, &dialed)
	assert.ErrorContains(t, dialed.cause, "the ssh connection has ended: ")
	assert.ErrorContains(t, dialed.cause, "closed by remote host")
	checkRemote(t, e, probe, server.address())
}

// The configuration of the user's ssh command counts, but for what it would do beside.
func TestSSHConfiguration(t *testing.T) {
	server := startSSHD(t)
	jump := server.beside()
	probe := loadProbe(t, open(t))
	taken := must.Get(os.MkdirTemp("", ""))(t)
	defer os.RemoveAll(taken)
	server.configure(
		"Host far", "  HostName 127.0.0.1", fmt.Sprintf("  Port %d", server.port), "  ProxyJump gate",
		fmt.Sprintf("  LocalForward 127.0.0.1:%d 127.0.0.1:1", jump.port), fmt.Sprintf("  RemoteForward 127.0.0.1:%d 127.0.0.1:1", jump.port), "  ExitOnForwardFailure yes",
		"  ControlMaster auto", "  ControlPath "+filepath.Join(taken, "cm"), "  ControlPersist 60", "  RemoteCommand echo hello", "  RequestTTY force",
		"  PermitLocalCommand yes", "  LocalCommand touch "+filepath.Join(taken, "local"), "  ServerAliveInterval 4",
		"Host gate", "  HostName 127.0.0.1", fmt.Sprintf("  Port %d", jump.port),
	)
	e := openWith(t, Options{Host: "ssh://far"})
	assert.Equal(t, "ssh, forwarded socket", e.Route())
	checkRemote(t, e, probe, "ssh://far")
	assert.Empty(t, must.Get(os.ReadDir(taken))(t), "what the configuration would leave")
	assert.Equal(t, 1, server.logins())
	assert.Equal(t, 1, jump.logins())
	login := server.client.Calls()[1] // after that at the jump host
	assert.NotContains(t, login[:strings.Index(login, "ProxyCommand")], "ServerAlive", "a shorter interval is the user's")
	assert.Equal(t, fmt.Sprintf("127.0.0.1:%d", jump.port), e.tunnel.settings.machine, "logins count at the jump host")
}

// A connection that the user has opened is used if a login is refused.
func TestSSHUsesTheUsersConnection(t *testing.T) {
	server := startSSHD(t, dockerCommand(t, ""))
	control := filepath.Join(server.client.Dir, "cm")
	server.configure("Host *", "  ControlPath "+control)
	master := exec.CommandContext(t.Context(), "ssh", "-M", "-N", "-o", "BatchMode=yes", "-p", strconv.Itoa(server.port), "127.0.0.1")
	require.NoError(t, master.Start())
	defer func() { _ = master.Process.Kill(); _ = master.Wait() }()
	waittest.Until(t, func() bool { return askAlive(t.Context(), control) == nil }, "the user has logged in")
	require.NoError(t, os.Rename(filepath.Join(server.client.Dir, "key.pub"), filepath.Join(server.client.Dir, "key.gone")))
	e := openWith(t, Options{Host: fmt.Sprintf("ssh://127.0.0.1:%d", server.port)})
	assert.Equal(t, "ssh, docker command", e.Route())
	burst(t, e)
	assert.Equal(t, 1, server.logins(), "logins")
}

// An engine behind ssh is like any other. Here its machine has the shim, too.
func TestDockerPassesTheSuiteOverSSH(t *testing.T) {
	server := startSSHD(t)
	probe := loadProbe(t, open(t))
	e := openWith(t, Options{Host: server.address()})
	e.shim = shimBinary(t)
	enginetest.Run(t, func(*testing.T) engine.Engine { return e }, enginetest.Images{
		Probe:    probe.ref,
		Tar:      probe.tar,
		HeldRuns: true,
		Left:     "reading\n",
		Lacked:   func(t *testing.T, labels map[string]string) bool { return lacked(t, e, labels) },
		Leave: func(t *testing.T, labels map[string]string) (string, func()) {
			return probe.leave(t, e, labels)
		},
	})
	assert.Equal(t, 1, server.logins(), "logins")
}

// What keeps a login from succeeding is said by ssh, in two lines at most, with what to do.
func TestSSHFails(t *testing.T) {
	server := startSSHD(t, "AllowStreamLocalForwarding no", "SetEnv PATH=/nowhere")
	fails := func(t *testing.T, says ...string) {
		t.Helper()
		_, err := Open(t.Context(), Options{Host: server.address()})
		checkError(t, err, engine.ErrUnavailable, append(says, server.address())...)
		assert.LessOrEqual(t, strings.Count(err.Error(), "\n"), 1, "%v", err)
		assert.NotContains(t, err.Error(), "docker.example", "%v", err)
		assert.NotContains(t, err.Error(), "api.moby", "%v", err)
	}
	t.Run("no docker command", func(t *testing.T) {
		fails(t, "docker: command not found", "sshd there does not connect to /var/run/docker.sock either", "AllowStreamLocalForwarding yes")
	})
	server.lines = []string{"AllowStreamLocalForwarding no", dockerCommand(t, "echo permission denied while trying to connect to the Docker daemon >&2; exit 1")}
	server.restart()
	t.Run("not in the group", func(t *testing.T) {
		group, root := "usermod -aG docker", "check that /var/run/docker.sock is the engine's"
		if os.Getuid() == 0 { // which needs no group
			group, root = root, group
		}
		fails(t, "permission denied while trying", group)
		assert.NotContains(t, must.Fail(Open(t.Context(), Options{Host: server.address()})).Error(), root)
		remedy := (&settings{values: map[string][]string{"user": {"deploy"}}}).complete(spoken[0].remedy, defaultSocket)
		assert.Contains(t, remedy, "`sudo usermod -aG docker deploy`")
	})
	server.lines = []string{"AllowStreamLocalForwarding no", dockerCommand(t, "echo 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?' >&2; exit 1")}
	server.restart()
	t.Run("the daemon is down", func(t *testing.T) {
		fails(t, "Cannot connect to the Docker daemon at unix:///var/run/docker.sock", "systemctl start docker")
	})
	server.lines = []string{"AllowStreamLocalForwarding no", dockerCommand(t, "echo This account is currently not available.; exit 1")}
	server.restart()
	t.Run("no shell", func(t *testing.T) {
		fails(t, "This account is currently not available", "AllowStreamLocalForwarding yes")
	})
	server.lines = []string{"AllowStreamLocalForwarding no", dockerCommand(t, "echo Which environment?; exec sleep 1000")}
	server.restart()
	t.Run("a start-up file asks", func(t *testing.T) {
		_, err := Open(t.Context(), Options{Host: server.address(), Timeout: 10 * time.Second})
		checkError(t, err, engine.ErrUnavailable, `prints "Which environment?" and does not answer`, "must print nothing and ask nothing")
	})
	t.Run("nobody listens", func(t *testing.T) {
		_, err := Open(t.Context(), Options{Host: "ssh://127.0.0.1:1"})
		checkError(t, err, engine.ErrUnavailable, "Connection refused", "is sshd running there?")
	})
	t.Run("no such host", func(t *testing.T) {
		_, err := Open(t.Context(), Options{Host: "ssh://host.invalid"})
		checkError(t, err, engine.ErrUnavailable, "Could not resolve hostname host.invalid", "check the host's name")
	})
	t.Run("the key is not accepted", func(t *testing.T) {
		key := filepath.Join(server.client.Dir, "key.pub")
		require.NoError(t, os.Rename(key, key+".gone"))
		defer os.Rename(key+".gone", key)
		fails(t, "Permission denied (publickey)", "ssh-copy-id")
		private := filepath.Join(server.client.Dir, "key")
		output, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-p", "-N", "secret", "-f", private).CombinedOutput()
		require.NoError(t, err, "%s", output)
		fails(t, "Permission denied (publickey)", "ssh-add "+private)
		require.NoError(t, exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-p", "-P", "secret", "-N", "", "-f", private).Run())
	})
	t.Run("the host key is unknown", func(t *testing.T) {
		known := filepath.Join(server.client.Dir, "known_hosts")
		require.NoError(t, os.Rename(known, known+".away"))
		fails(t, "Host key verification failed", "deployster host trust")
		require.NoError(t, os.Rename(known+".away", known))
	})
	t.Run("the host key has changed", func(t *testing.T) {
		server.changeKey()
		server.restart()
		fails(t, "HOST IDENTIFICATION HAS CHANGED", "find out why", fmt.Sprintf("ssh-keygen -R '[127.0.0.1]:%d'", server.port))
	})
	t.Run("a broken configuration", func(t *testing.T) {
		server.configure("Nonsense yes")
		fails(t, "Bad configuration option: nonsense", "repair your ssh configuration")
	})
	t.Run("no ssh command", func(t *testing.T) {
		t.Setenv("PATH", "/nowhere")
		fails(t, "there is no ssh command in PATH", "apt-get install openssh-client")
	})
}

// A helper of ssh that outlives it keeps nobody waiting.
func TestSSHHelperStays(t *testing.T) {
	server := startSSHD(t)
	bin := filepath.Join(server.client.Dir, "bin", "ssh")
	script := string(must.Get(os.ReadFile(bin))(t))
	require.NoError(t, os.WriteFile(bin, []byte(strings.Replace(script, "exec ", "[ \"$1\" = -G ] || setsid sleep 1000 & echo $! >'"+server.client.Dir+"/helper'\nexec ", 1)), 0o755))
	defer func() {
		pid := must.Get(strconv.Atoi(strings.TrimSpace(string(must.Get(os.ReadFile(server.client.Dir + "/helper"))(t)))))(t)
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}()
	e := must.Get(Open(t.Context(), Options{Host: server.address()}))(t)
	began := time.Now()
	assert.NoError(t, e.Close())
	assert.Less(t, time.Since(began), 500*time.Second, "it waits for a helper that stays for 1000 s")
}

// A process that is killed leaves no ssh process. The next one removes its directory.
func TestSSHEndsWithItsProcess(t *testing.T) {
	server := startSSHD(t)
	killed := exec.CommandContext(t.Context(), must.Get(os.Executable())(t), server.address())
	killed.Env = append(os.Environ(), actAs+"=open-and-die")
	output, err := killed.CombinedOutput()
	require.ErrorContains(t, err, "killed", "%s", output)
	waittest.Until(t, func() bool { return len(server.sessions()) == 0 }, "the connection ends")
	left := func() []string { return must.Get(filepath.Glob(filepath.Join(server.client.Dir, socketPrefix+"*")))(t) }
	require.Len(t, left(), 1, "a process that is killed cannot remove its directory")
	gone := left()[0]
	openWith(t, Options{Host: server.address()})
	assert.NotContains(t, left(), gone)
	assert.Len(t, left(), 1)
}

func TestGate(t *testing.T) {
	g := newGate(loginsAtOnce)
	for range loginsAtOnce {
		require.NoError(t, g.enter(t.Context()))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, g.enter(ctx), context.Canceled, "the fifth waits")
	g.leave(true)
	assert.ErrorIs(t, g.enter(ctx), context.Canceled, "one less after a login is dropped")
	g.leave(false)
	assert.NoError(t, g.enter(t.Context()))
	for range loginsToMore {
		g.leave(false)
		require.NoError(t, g.enter(t.Context()))
	}
	assert.NoError(t, g.enter(t.Context()), "one more after logins that are not dropped")
}
