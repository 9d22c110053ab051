package pipeline

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/pipeline"
)

// atOnce are two processes that use one log. Each knows what it has followed.
type atOnce struct {
	*testing.T
	app        *app.App
	one, other *query.Pipelines
}

func withTwo(t *testing.T, do func(atOnce)) {
	t.Helper()
	a := app.New()
	a.Workspace = t.TempDir()
	none, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = none.Close() })
	a.Out, a.Err = none, none
	for _, name := range []string{"a.yaml", "b.yaml"} {
		require.NoError(t, os.WriteFile(filepath.Join(a.Workspace, name), []byte("resources: {}\n"), 0o600))
	}
	err = a.WithNewLog(t.Context(), func(log deploylog.Log) error {
		do(atOnce{t, a, query.NewPipelines(log, time.Now), query.NewPipelines(log, time.Now)})
		return nil
	})
	require.NoError(t, err)
}

func (w atOnce) follow(p *query.Pipelines) {
	w.Helper()
	require.NoError(w, p.Follow(w.Context(), 0))
}

// define defines a pipeline of one stage, as "pipeline apply --yes" does.
func (w atOnce) define(p *query.Pipelines, manifest string) ([]deploylog.Event, error) {
	w.Helper()
	text := "pipeline: gateway\nstages:\n  - {name: smoke, run: {manifest: " + manifest + "}}\n"
	file := filepath.Join(w.app.Workspace, "gateway.yaml")
	require.NoError(w, os.WriteFile(file, []byte(text), 0o600))
	d, err := readDefinition(w.app, file)
	require.NoError(w, err)
	c, err := define(w.Context(), w.app, p.Log, p.Pipelines, change{Define: pipeline.Define{Definition: d}, inputs: usualInputs, yes: true})
	return c.events, err
}

func (w atOnce) release(p *query.Pipelines) error {
	_, _, err := release(w.Context(), w.app, p, "gateway", pipeline.Release{Revision: "1", ID: w.app.NewID(), By: "test"}, nil, usualInputs)
	return err
}

func (w atOnce) mustDefine(p *query.Pipelines, manifest string) []deploylog.Event {
	w.Helper()
	events, err := w.define(p, manifest)
	w.must(err)
	return events
}

// usualInputs are the flags where nobody gives any.
var usualInputs = inputFlags{WorkerFlags: session.WorkerFlags{Inventory: "inventory.yaml", Engine: engines.Flags{Pull: "missing"}}}

func (w atOnce) must(err error) {
	w.Helper()
	require.NoError(w, err)
}

func (w atOnce) wantCarried(p *query.Pipelines, want ...string) {
	w.Helper()
	w.follow(p)
	r, err := p.Release("gateway", "1")
	w.must(err)
	want = append([]string{revision.ImagesName, revision.VariablesName}, want...)
	if got := slices.Sorted(maps.Keys(r.Carries)); !slices.Equal(got, want) {
		w.Errorf("revision 1 carries %q, want %q", got, want)
	}
}

func TestAReleaseCarriesWhatThePipelineIsWhenItIsRecorded(t *testing.T) {
	withTwo(t, func(w atOnce) {
		w.mustDefine(w.one, "a.yaml")
		w.follow(w.other)
		w.mustDefine(w.one, "b.yaml")
		assert.ErrorIs(t, w.release(w.other), errRedefined, "the pipeline was changed meanwhile")
		w.must(w.release(w.other))
		w.wantCarried(w.one, "b.yaml")
	})
}

func TestTwoFirstDefinitionsAtOnceLeaveNoRevisionWithoutItsManifests(t *testing.T) {
	withTwo(t, func(w atOnce) {
		w.follow(w.other)
		w.mustDefine(w.one, "a.yaml")
		w.must(w.release(w.one))
		if _, err := w.define(w.other, "b.yaml"); !errors.Is(err, errMoved) {
			t.Errorf("the pipeline was defined meanwhile: %v", err)
		}
		events := w.mustDefine(w.other, "b.yaml")
		if len(events) == 0 || !strings.Contains(string(events[0].Data), `"b.yaml":"`) {
			t.Errorf("the revision under way is brought nothing: %v", events)
		}
		w.wantCarried(w.one, "a.yaml")
	})
}
