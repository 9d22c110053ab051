package examples

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
)

// unit is what a file of systemd says, by "Section.Key", in its order.
type unit map[string][]string

func readUnit(t *testing.T, path string) unit {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	u, section := unit{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		name, value, assigned := strings.Cut(line, "=")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		case !assigned:
			t.Fatalf("%s: %q says nothing", path, line)
		default:
			u[section+"."+name] = append(u[section+"."+name], value)
		}
	}
	return u
}

// one is what is said once.
func (u unit) one(t *testing.T, key string) string {
	require.Len(t, u[key], 1, key)
	return u[key][0]
}

// systemd itself finds nothing wrong with the units, and little that an intruder could do.
func TestTheUnitsOfTheServerAreSound(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"deployster.service", "deployster.socket"} {
		text := must.Get(os.ReadFile(filepath.Join("server", name)))(t)
		// It looks for the program, and for the page that is named.
		text = []byte(strings.ReplaceAll(string(text), "/usr/local/bin/deployster", shared.binary))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	service := filepath.Join(dir, "deployster.service")
	out, err := exec.Command("systemd-analyze", "verify", service, filepath.Join(dir, "deployster.socket")).CombinedOutput()
	assert.True(t, err == nil && len(out) == 0, "systemd-analyze verify: %v\n%s", err, out)
	out, err = exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=25", service).CombinedOutput()
	assert.NoError(t, err, "systemd-analyze security: %v\n%s", err, out)
}

// The service is started as systemd does it by the units: with their sockets, in their
// directory, and told where to say that it is ready.
func TestTheUnitsStartAServer(t *testing.T) {
	service, socket := readUnit(t, "server/deployster.service"), readUnit(t, "server/deployster.socket")
	dir := t.TempDir()
	state := service.one(t, "Service.WorkingDirectory")
	assert.Equal(t, "/var/lib/"+service.one(t, "Service.StateDirectory"), state, "it works in")
	command := strings.Fields(service.one(t, "Service.ExecStart"))
	require.True(t, command[0] == "/usr/local/bin/deployster" && service.one(t, "Service.Type") == "notify", "it is started as %q", command)
	// With a limit, systemd gives up on the socket as well.
	if service.one(t, "Service.Restart") != "on-failure" || service.one(t, "Unit.StartLimitIntervalSec") != "0" {
		t.Error("a server that fails for a while is not started again, and nobody can connect any more")
	}
	notified, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	require.NoError(t, err)
	defer notified.Close()
	var passed []*os.File
	var at []net.Addr
	for _, where := range socket["Socket.ListenStream"] {
		l := listenAs(t, where, dir)
		defer l.Close()
		file := must.Get(l.(interface{ File() (*os.File, error) }).File())(t)
		defer file.Close()
		passed, at = append(passed, file), append(at, l.Addr())
	}
	require.Len(t, at, 2, "clients connect at %v", at)
	// The process that is meant is the one that the shell becomes.
	c := exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, shared.binary}, command[1:]...)...)
	c.Dir, c.ExtraFiles = filepath.Join(dir, "state"), passed
	c.Env = append(append(shared.env, service["Service.Environment"]...), "HOME="+c.Dir, "NOTIFY_SOCKET="+notified.LocalAddr().String(), fmt.Sprintf("LISTEN_FDS=%d", len(passed)))
	var said strings.Builder
	c.Stdout, c.Stderr = &said, &said
	require.NoError(t, errors.Join(os.Mkdir(c.Dir, 0o750), c.Start()))
	ended := make(chan error, 1)
	go func() {
		ended <- c.Wait()
		end, err := net.DialUnix("unixgram", nil, notified.LocalAddr().(*net.UnixAddr))
		if err != nil {
			_ = notified.Close()
			return
		}
		_, _ = end.Write([]byte("it has ended")) // behind all that it said
		_ = end.Close()
	}()
	defer func() { _ = c.Process.Kill() }()
	wantNotified(t, notified, "READY=1")
	for _, a := range at {
		assert.Equal(t, http.StatusOK, answers(t, a, "/readyz"), "at %s it is ready", a)
	}
	assert.Equal(t, http.StatusUnauthorized, answers(t, at[0], "/v1/log"), "who is unknown is answered with")
	assert.Equal(t, http.StatusOK, answers(t, at[1], "/v1/log"), "whom the kernel knows is answered with")
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	wantNotified(t, notified, "STOPPING=1")
	err = <-ended
	assert.NoError(t, err, "it ended with %v:\n%s", err, said.String())
}

// listenAs listens where a unit says, but for the port and the directory, which are those of
// the test.
func listenAs(t *testing.T, where, dir string) net.Listener {
	network, address := "unix", filepath.Join(dir, filepath.Base(where))
	if !strings.HasPrefix(where, "/") {
		host, _, err := net.SplitHostPort(where)
		require.NoError(t, err)
		network, address = "tcp", net.JoinHostPort(host, "0")
	}
	l := must.Get(net.Listen(network, address))(t)
	return l
}

func wantNotified(t *testing.T, c *net.UnixConn, want string) {
	t.Helper()
	text := make([]byte, 4096)
	n, err := c.Read(text)
	if err != nil || string(text[:n]) != want {
		t.Fatalf("systemd is told %q, %v, want %q", text[:n], err, want)
	}
}

// answers is the status with which a server answers.
func answers(t *testing.T, at net.Addr, path string) int {
	client := &http.Client{Timeout: waittest.Limit, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, at.Network(), at.String())
	}}}
	answer := must.Get(client.Get("http://server" + path))(t)
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

// checkout is what the image of the server is built from.
func checkout(t *testing.T) string {
	dir := t.TempDir()
	require.NoError(t, errors.Join(os.MkdirAll(filepath.Join(dir, "bin"), 0o755), os.CopyFS(filepath.Join(dir, "examples/server"), os.DirFS("server"))))
	shared.command(t, "cp", shared.binary, filepath.Join(dir, "bin/deployster"))
	return dir
}

// workspaceOfOne is a workspace with a pipeline that has a revision to be done.
func workspaceOfOne(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("approval")))
	if err := os.WriteFile(filepath.Join(dir, "site.yaml"), []byte("pipeline: site\nstages: [{name: all, run: {manifest: announce.yaml}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	shared.deployster(t, dir, "pipeline", "apply", "-f", "site.yaml")
	shared.deployster(t, dir, "pipeline", "release", "site", "7")
	return dir
}

// Compose builds the image of the server and starts it from its file as it is, but for the directory
// and the port. In its container the server has the engine of the machine do what is to be done, in
// the workspace that it shares with the machine.
func TestTheComposeFileStartsAServer(t *testing.T) {
	name, from, dir := shared.name()+"-composed", checkout(t), workspaceOfOne(t)
	port := shared.freePort(t)
	compose := func(args ...string) string {
		c := exec.Command("docker-compose", append([]string{"--project-name", name, "--file", filepath.Join(from, "examples/server/compose.yaml")}, args...)...)
		c.Env = append(shared.env, "DEPLOYSTER_WORKSPACE="+dir, "DEPLOYSTER_IMAGE="+name, fmt.Sprintf("DEPLOYSTER_PORT=%d", port))
		var said strings.Builder
		c.Stderr = &said
		out, err := c.Output()
		require.NoError(t, err, "docker-compose %s: %v\n%s%s", strings.Join(args, " "), err, out, said.String())
		return string(out)
	}
	shared.images = append(shared.images, name)
	t.Cleanup(func() { compose("down", "--volumes", "--timeout", "60") })
	compose("up", "--detach", "--build")
	id := strings.TrimSpace(compose("ps", "--quiet"))
	wantServed(t, id, dir)
	token := strings.TrimSpace(compose("exec", "-T", "deployster", "/deployster", "token", "create", "ci", "--role", "viewer"))
	at := published(t, id)
	c := exec.Command(shared.binary, "--server", "http://"+at.String(), "log", "runs")
	c.Env = append(shared.env, "DEPLOYSTER_TOKEN="+token)
	out, err := c.CombinedOutput()
	assert.True(t, err == nil && strings.Contains(string(out), "announce.yaml"), "with a token it answers %v\n%s", err, out)
	shared.docker(t, "stop", "--time", "600", id)
	ended := must.Get(exec.Command("docker", "inspect", "--format", "{{.State.ExitCode}}", id).Output())(t)
	assert.Equal(t, "0\n", string(ended))
}

// published is the address of the machine at which a container answers.
func published(t *testing.T, container string) *net.TCPAddr {
	out := must.Get(exec.Command("docker", "port", container, "7450/tcp").Output())(t)
	at, err := net.ResolveTCPAddr("tcp", strings.TrimSpace(string(out)))
	require.True(t, err == nil && at.IP.IsLoopback(), "it is published at %s, %v", out, err)
	return at
}

// wantServed waits until the server in a container has carried revision 7 through the
// pipeline of a workspace, and checks that it answers.
func wantServed(t *testing.T, container, dir string) {
	t.Helper()
	ctx, cancel := context.WithCancel(waittest.Context(t))
	c := exec.CommandContext(ctx, "docker", "logs", "--follow", container)
	out := must.Get(c.StdoutPipe())(t)
	c.Stderr = c.Stdout
	require.NoError(t, c.Start())
	defer func() {
		cancel()
		_ = c.Wait()
	}()
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		if strings.Contains(lines.Text(), "pipeline-finished-successfully") {
			break
		}
	}
	require.Contains(t, said.String(), "pipeline-finished-successfully", "the revision does not get through the pipeline")
	contains(t, filepath.Join(dir, "site/index.html"), "revision 7")
	var used struct {
		Data struct {
			ImageID string `json:"image_id"`
		}
	}
	if err := json.Unmarshal([]byte(shared.deployster(t, dir, "log", "list", "--event", "resource-initialized", "--last", "1", "--output", "json")), &used); err != nil {
		t.Fatal(err)
	}
	shared.shipped = used.Data.ImageID // to be removed at the end
	at := published(t, container)
	assert.Equal(t, http.StatusOK, answers(t, at, "/readyz"), "it is ready with")
	assert.Equal(t, http.StatusUnauthorized, answers(t, at, "/v1/log"), "who is unknown is answered with")
}
