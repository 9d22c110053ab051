package docker

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/docker/cli/cli/connhelper"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
)

// dialStdio does what `docker system dial-stdio` does at the far end of an ssh
// connection: it joins stdin and stdout to the engine's socket.
func dialStdio(socket string) int {
	dialed, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	conn := dialed.(*net.UnixConn)
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		_ = conn.CloseWrite()
	}()
	_, _ = io.Copy(os.Stdout, conn)
	return 0
}

// stubSSH puts an ssh into PATH that runs the script.
func stubSSH(t *testing.T, script string) {
	t.Helper()
	directory := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(directory, "ssh"), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	t.Setenv("PATH", directory+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestSSH(t *testing.T) {
	const address = "ssh://somebody@engine.example:2222"
	probe := loadProbe(t, open(t))
	self, err := os.Executable()
	require.NoError(t, err)
	calls := filepath.Join(t.TempDir(), "calls")
	stubSSH(t, fmt.Sprintf(`echo "$*" >>'%s'; %s=dial-stdio exec '%s' '%s'`, calls, actAs, self, localSocket(t)))

	checkRemote(t, openWith(t, Options{Host: address}), probe, address)

	recorded, err := os.ReadFile(calls)
	require.NoError(t, err)
	for _, want := range []string{"-l somebody", "-p 2222", "-- engine.example docker system dial-stdio"} {
		assert.Contains(t, string(recorded), want, "ssh was called with %q, want %q in it", recorded, want)
	}

	inContext := dockerConfig(t, map[string]any{})
	addContext(t, inContext, "far", address, nil)
	checkRemote(t, openWith(t, Options{ConfigDir: inContext, Context: "far"}), probe, address)
}

func TestSSHFails(t *testing.T) {
	stubSSH(t, `echo "somebody@engine.example: Permission denied (publickey)." >&2; exit 255`)
	_, err := Open(t.Context(), Options{Host: "ssh://somebody@engine.example:2222"})
	checkError(t, err, engine.ErrUnavailable, "Permission denied (publickey)", "`ssh -p 2222 somebody@engine.example docker version`")
	assert.NotContains(t, err.Error(), "usermod", "advice about sockets for an ssh connection: %v", err)

	stubSSH(t, `echo "docker: command not found" >&2; exit 127`)
	_, err = Open(t.Context(), Options{Host: "ssh://engine.example"})
	checkError(t, err, engine.ErrUnavailable, "command not found", "`ssh engine.example docker version`")
}

// TestAWriteDoesNotHideWhySSHFailed writes after the end of the command was read.
func TestAWriteDoesNotHideWhySSHFailed(t *testing.T) {
	stubSSH(t, `echo "Permission denied (publickey)." >&2; exit 255`)
	helper, err := connhelper.GetConnectionHelper("ssh://engine.example")
	require.NoError(t, err)
	conn, err := helper.Dialer(t.Context(), "tcp", "docker.example")
	require.NoError(t, err)
	c := sshConn{conn}
	defer c.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "Permission denied") {
		t.Errorf("reading fails with %v, which does not say why", err)
	}
	if n, err := c.Write([]byte("GET")); n != 3 || err != nil {
		t.Errorf("writing gives %d, %v; want 3, and the error left to the next read", n, err)
	}
}

func TestUnreachable(t *testing.T) {
	directory := t.TempDir()
	dead := filepath.Join(directory, "dead.sock")
	listener, err := net.Listen("unix", dead)
	require.NoError(t, err)
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
	go func() {
		<-reached
		cancel()
	}()
	_, err := Open(ctx, Options{Host: "tcp://" + strings.TrimPrefix(silent.URL, "http://")})
	assert.ErrorIs(t, err, context.Canceled)
}

// Root may open every socket, so the attempt is another user's.
func TestNoPermissionOnSocket(t *testing.T) {
	directory, err := os.MkdirTemp("", "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	socket := filepath.Join(directory, "docker.sock")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
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

// Podman answers with another ID each time, by which no run would find its engine
// again.
func TestAnIDThatChangesIsNone(t *testing.T) {
	var asked atomic.Int64
	stable := false
	answering := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.44")
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/info") {
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
		if identity, err := e.Identity(t.Context()); err != nil || identity.ID != c.want {
			t.Errorf("ID %q, %v; want %q", identity.ID, err, c.want)
		}
	}
}
