package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/must"
)

// told holds what a Docker Engine of a test tells of itself.
type told struct {
	ID       string
	Ahead    time.Duration // of its clock
	Warnings []string
	Info     int // status of the answer; 0 is 200
	Disk     int
	Left     func() // is called when its client has closed a connection; may be nil
}

// dockerEngine is the address of an engine that answers what host check asks.
func dockerEngine(t *testing.T, tells told) string {
	path := filepath.Join(t.TempDir(), "docker.sock")
	l := must.Get(net.Listen("unix", path))(t)
	answer := func(w http.ResponseWriter, status int, value any) {
		w.Header().Set("Content-Type", "application/json")
		if status != 0 {
			w.WriteHeader(status)
		}
		_ = json.NewEncoder(w).Encode(value)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed && tells.Left != nil {
			tells.Left()
		}
	}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		switch _, what, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v"), "/"); what {
		case "version":
			answer(w, 0, map[string]any{"Version": "28.2.2", "ApiVersion": "1.41", "Os": "linux", "Arch": "amd64"})
		case "info":
			answer(w, tells.Info, map[string]any{"ID": tells.ID, "Name": "elsewhere", "DockerRootDir": "/var/lib/docker", "SystemTime": time.Now().Add(tells.Ahead).Format(time.RFC3339Nano), "Warnings": tells.Warnings, "message": "forbidden"})
		case "system/df":
			answer(w, tells.Disk, map[string]any{
				"LayersSize": 3 << 30, "Images": []any{map[string]any{"Size": 1 << 30, "SharedSize": 0, "Containers": 0}}, "message": "a disk usage operation is already running",
				"Volumes": []any{map[string]any{"Name": "v", "UsageData": map[string]any{"Size": 1 << 30, "RefCount": 1}}},
			})
		}
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return "unix://" + path
}

// dockerContext makes a context of the docker command in the directory of a command.
func (c *command) dockerContext(name, address string) {
	sum := sha256.Sum256([]byte(name))
	dir := filepath.Join("docker", "contexts", "meta", hex.EncodeToString(sum[:]))
	require.NoError(c, os.MkdirAll(dir, 0o700))
	meta := fmt.Sprintf(`{"Name": %q, "Metadata": {}, "Endpoints": {"docker": {"Host": %q, "SkipTLSVerify": false}}}`, name, address)
	require.NoError(c, os.WriteFile(filepath.Join(dir, "meta.json"), []byte(meta), 0o600))
}

// command is the process of a test, in whose directory the inventory is.
type command struct {
	*testing.T
	app *app.App
	ctx context.Context
}

func newCommand(t *testing.T, inventory string) *command {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("DOCKER_CONFIG", filepath.Join(dir, "docker"))
	require.NoError(t, os.WriteFile("inventory.yaml", []byte(inventory), 0o600))
	a := &app.App{Printer: &output.Printer{Getenv: os.Getenv, Now: time.Now, Format: "text"}, In: must.Get(os.Open(os.DevNull))(t), Workspace: dir}
	t.Cleanup(func() { _ = a.In.Close() })
	return &command{t, a, t.Context()}
}

// run runs a command below host, and returns its output with that of its error, and its exit code.
func (c *command) run(args ...string) (text string, code int) {
	c.Helper()
	file := must.Get(os.CreateTemp(c.TempDir(), "out"))(c)
	c.app.Out, c.app.Err = file, file
	root := NewCommand(c.app)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(args)
	err := root.ExecuteContext(c.ctx)
	out := must.Get(os.ReadFile(file.Name()))(c)
	require.NoError(c, file.Close())
	return string(out) + exit.Text(err), exit.Code(err)
}
