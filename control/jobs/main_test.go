package jobs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/engine/oci"
	_ "github.com/deployster-go/deployster/internal/early" // containers start with it
	"github.com/deployster-go/deployster/internal/entrypoint"
)

// actAs makes this test binary do the job that its argument says.
const actAs = "DEPLOYSTER_TEST_ACT_AS"

func TestMain(m *testing.M) {
	entrypoint.Dispatch()
	if os.Getenv(actAs) != "" {
		fmt.Fprintln(os.Stderr, doOrder(os.Args[1]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// order is a job for another process.
type order struct {
	Engine place
	Dir    string
	Task   build.Task

	User    user // who does it; zero is the same one
	Program jobs.Program
}

// place is an engine that other processes can open, too.
type place struct {
	OCI        bool
	Cache, Run string
}

func (p place) open(ctx context.Context) (engine.Engine, error) {
	if p.OCI {
		return oci.Open(ctx, oci.Options{CacheDir: p.Cache, RunDir: p.Run})
	}
	return docker.Open(ctx, docker.Options{})
}

func doOrder(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	if err := o.User.become(); err != nil {
		return err
	}
	e, err := o.Engine.open(context.Background())
	if err != nil {
		return err
	}
	options, _, err := optionsIn(context.Background(), o.Dir, e)
	if err != nil {
		return err
	}
	options.Program, options.Logger = o.Program, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	all := jobs.New(options)
	r := all.Build(context.Background(), o.Task)
	all.Wait()
	return errors.Join(fmt.Errorf("the job is not to end: %s", told(r)), e.Close())
}

// begin has another process do a job, and returns what kills it.
func (w *world) begin(at place, t build.Task) (kill func()) {
	w.Helper()
	text, err := json.Marshal(order{Engine: at, Dir: w.dir, Task: t})
	require.NoError(w, err)
	var said bytes.Buffer
	command := exec.Command("/proc/self/exe", string(text))
	command.Env = append(os.Environ(), actAs+"=job")
	command.Stdout, command.Stderr = &said, &said
	require.NoError(w, command.Start())
	return func() {
		_ = command.Process.Kill()
		require.Error(w, command.Wait())
		assert.Zero(w, said.Len(), "the process was not killed")
	}
}

// jobImage is the image, as an archive.
func jobImage(tb testing.TB) []byte {
	tb.Helper()
	program := enginetest.Binary(tb, "github.com/deployster-go/deployster/control/jobs/internal/script/job", runtime.GOARCH)
	built, err := enginetest.BuildImage(enginetest.ImageSpec{Binary: program, Path: "/job", Entrypoint: []string{"/job"}})
	require.NoError(tb, err)
	tar, err := enginetest.ImageTar(image, built)
	require.NoError(tb, err)
	return tar
}

// realEngines are those on which jobs run as processes, with the image.
func realEngines(t *testing.T) map[string]place {
	t.Helper()
	places := map[string]place{"oci": {OCI: true, Cache: t.TempDir(), Run: t.TempDir()}, "docker": {}}
	tar := jobImage(t)
	for name, at := range places {
		e, err := at.open(t.Context())
		require.NoError(t, err, "these tests need root, runc, and a Docker Engine: %s", name)
		require.NoError(t, e.Load(t.Context(), bytes.NewReader(tar)))
		assert.NoError(t, e.Close())
	}
	t.Cleanup(func() {
		if said, err := exec.Command("docker", "rmi", image).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, said)
		}
	})
	return places
}

// opened is an engine that is closed at the end of the test.
func opened(t *testing.T, at place) engine.Engine {
	t.Helper()
	e, err := at.open(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close()) })
	return e
}
