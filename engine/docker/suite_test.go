package docker

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
)

func TestDockerPassesTheSuite(t *testing.T) {
	probe := loadProbe(t, open(t))
	shim := shimBinary(t)
	e := openWith(t, Options{Shim: shim})
	enginetest.Run(t, func(*testing.T) engine.Engine { return e }, enginetest.Images{
		Probe: probe.ref,
		Tar:   probe.tar,

		HeldRuns: true,
		Left:     "reading\n",
		Lacked:   func(t *testing.T, labels map[string]string) bool { return lacked(t, e, labels) },
		Leave: func(t *testing.T, labels map[string]string) (string, func()) {
			return probe.leave(t, e, labels)
		},
		Caller: func(t *testing.T, order string) *exec.Cmd { return caller(t, shim, order, "") },
	})
}

// lacked reports whether Docker has noticed that memory is lacking in a container.
func lacked(t *testing.T, e *Engine, labels map[string]string) bool {
	t.Helper()
	found, err := e.Containers(t.Context(), labels)
	require.True(t, err == nil && len(found) == 1, "containers %v (%v), want one", found, err)
	filters := client.Filters{}
	filters.Add("container", found[0].ID)
	filters.Add("event", "oom")
	events := e.client.Events(t.Context(), client.EventsListOptions{
		Since: found[0].Created.Format(time.RFC3339Nano), Until: time.Now().Format(time.RFC3339Nano), Filters: filters,
	})
	select {
	case <-events.Messages:
		return true
	case err := <-events.Err:
		require.ErrorIs(t, err, io.EOF)
		return false
	}
}

// caller is a process of this test binary that carries an order out, and is
// killed at the latest when its run passes a point.
func caller(t *testing.T, shim, order, point string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), self, shim, order, point)
	command.Env = append(os.Environ(), actAs+"=die")
	return command
}

// dieAt kills this process at a point of a run.
func dieAt(last string) func(string) {
	return func(point string) {
		if point == last {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}

// Wherever a run is when its caller is killed, and whether there is a shim or
// not: the program has its whole input, or never starts.
func TestACallerIsKilledAtEveryPoint(t *testing.T) {
	e := open(t)
	probe := loadProbe(t, e)
	for _, shim := range []string{shimBinary(t), ""} {
		for _, point := range []string{"the container is about to start", "the container is started", "the input is given"} {
			for _, size := range []int{1000, ahead} {
				directory, mark := t.TempDir(), rand.Text()
				order, err := json.Marshal(map[string]any{
					"Image": probe.ref, "Args": []string{"save", "/mnt/kept"}, "Size": size, "Given": size, "After": time.Hour,
					"Mounts": []engine.Mount{{Source: directory, Target: "/mnt"}}, "Labels": map[string]string{"deployster.enginetest": mark},
				})
				require.NoError(t, err)
				if said, err := caller(t, shim, string(order), point).CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
					t.Fatalf("%s: the caller was not killed: %v\n%s", point, err, said)
				}
				left := awaitContainer(t, e, mark, func(c engine.Container) bool { return !c.Running })
				assert.NoError(t, e.Remove(t.Context(), left.ID))
				content, err := os.ReadFile(filepath.Join(directory, "kept"))
				if err == nil && string(content) != fmt.Sprintln(size) || err != nil && !os.IsNotExist(err) {
					t.Errorf("shim %q, when %s: it ran with %s of %d bytes (%v)", shim, point, content, size, err)
				}
			}
		}
	}
}
