package submission_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/control/submission"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/manifest/vars"
)

// world is a workspace with workers.
type world struct {
	testing.TB
	submission.Collector
	dir      string
	store    *artifacts.Store
	hosts    []inventory.Host
	err      error                   // why it is not known which hosts there are
	builds   map[string][]string     // platforms of hosts, as their engines say
	away     map[string]error        // hosts that do not answer
	images   map[string]engine.Image // that every engine has
	asked    []string                // images
	variable []vars.Flag
}

func newWorld(t testing.TB, files map[string]string) *world {
	w := &world{
		TB: t, dir: t.TempDir(), hosts: []inventory.Host{{Name: "local"}}, builds: map[string][]string{"local": {"linux/amd64"}}, away: map[string]error{},
		images: map[string]engine.Image{"build:1": image("aa"), "build:2": image("bb")},
	}
	for name, text := range files {
		w.write(name, text)
	}
	w.Texts = work.NewTexts(filepath.Join(w.dir, ".deployster/objects"), w.dir, objects.Give(nil))
	w.store = artifacts.In(filepath.Join(w.dir, ".deployster/artifacts"))
	w.Artifacts = w.store
	w.Inputs = work.Inputs{Workspace: w.dir, Now: time.Now, Hide: func(any) {}}
	w.Policy, w.Own, w.Platform = engine.PullMissing, "this group", "linux/"+runtime.GOARCH
	w.Engine = func(_ context.Context, worker string) (*work.Connection, error) {
		return &work.Connection{Images: w}, w.away[worker]
	}
	return w
}

func image(id string) engine.Image {
	return engine.Image{ID: "sha256:" + strings.Repeat(id, 32), OS: "linux", Arch: "amd64"}
}

func (w *world) write(name, text string) {
	w.Helper()
	path := filepath.Join(w.dir, filepath.FromSlash(name))
	require.NoError(w, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
}

// Workers are the hosts.
func (w *world) hostsNow() ([]inventory.Host, error) { return w.hosts, w.err }

// Look asks a host for its platforms.
func (w *world) Look(_ context.Context, name string) ([]string, error) {
	return w.builds[name], w.away[name]
}

// Image is that of every engine.
func (w *world) Image(_ context.Context, ref string, _ engine.PullPolicy, _ func(engine.Progress)) (engine.Image, error) {
	w.asked = append(w.asked, ref)
	i, known := w.images[ref]
	if !known {
		return i, fmt.Errorf("image %s: %w", ref, engine.ErrNoImage)
	}
	return i, nil
}

// fleetOf is the workers of a world.
type fleetOf struct{ *world }

// Workers are the hosts.
func (f fleetOf) Workers() ([]inventory.Host, error) { return f.hostsNow() }

// collect submits a text.
func (w *world) collect(text string, touched ...string) (*submission.Collected, error) {
	w.Helper()
	w.Inputs.Variables = w.variable
	c := w.Collector
	c.Workers = fleetOf{w}
	got, err := c.Collect(context.Background(), submission.Request{File: "packages.yaml", Name: "packages.yaml", Text: []byte(text), Touched: touched})
	if err != nil {
		return nil, err
	}
	if _, err := build.New("builds").Propose(got.Submit, time.Now()); err != nil && len(got.Submit.Jobs) > 0 {
		w.Errorf("the machine refuses it: %v", err)
	}
	return got, nil
}

// collected is what must be possible to submit.
func (w *world) collected(text string, touched ...string) *submission.Collected {
	w.Helper()
	got, err := w.collect(text, touched...)
	require.NoError(w, err)
	return got
}

// recipe is what a job runs.
func (w *world) recipe(c *submission.Collected, job int) recipe.Recipe {
	w.Helper()
	index := c.Submit.Jobs[job-1].Recipe
	r, err := recipe.At(c.Files[recipe.Name(index)], index)
	require.NoError(w, err)
	return r
}
