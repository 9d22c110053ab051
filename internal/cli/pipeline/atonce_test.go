package pipeline

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
)

// atOnce are two processes that use one log. Each knows what it has followed.
type atOnce struct {
	*testing.T
	app        *app.App
	one, other *query.Pipelines
}

func withTwo(t *testing.T, do func(atOnce)) {
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

func (w atOnce) follow(p *query.Pipelines) { require.NoError(w, p.Follow(w.Context(), 0)) }

// define defines a pipeline of one stage, as "pipeline apply --yes" does.
func (w atOnce) define(p *query.Pipelines, manifest string) ([]deploylog.Event, error) {
	text := "pipeline: gateway\nstages:\n  - {name: smoke, run: {manifest: " + manifest + "}}\n"
	file := filepath.Join(w.app.Workspace, "gateway.yaml")
	require.NoError(w, os.WriteFile(file, []byte(text), 0o600))
	d := must.Get(readDefinition(w.app, file))(w)
	c, err := define(w.Context(), w.app, p.Log, p.Pipelines, change{Define: pipeline.Define{Definition: d}, inputs: usualInputs, yes: true})
	return c.events, err
}

func (w atOnce) release(p *query.Pipelines) error {
	_, _, err := release(w.Context(), w.app, p, "gateway", pipeline.Release{Revision: "1", ID: w.app.NewID(), By: "test"}, nil, usualInputs)
	return err
}

func (w atOnce) mustDefine(p *query.Pipelines, manifest string) []deploylog.Event {
	events, err := w.define(p, manifest)
	w.must(err)
	return events
}

// usualInputs are the flags where nobody gives any.
var usualInputs = inputFlags{WorkerFlags: session.WorkerFlags{Inventory: "inventory.yaml", Engine: engines.Flags{Pull: "missing"}}}

func (w atOnce) must(err error) { require.NoError(w, err) }

func (w atOnce) wantCarried(p *query.Pipelines, want ...string) {
	w.follow(p)
	r, err := p.Release("gateway", "1")
	w.must(err)
	want = append([]string{revision.ImagesName, revision.VariablesName}, want...)
	assert.Equal(w, want, slices.Sorted(maps.Keys(r.Carries)), "revision 1 carries")
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
		_, err := w.define(w.other, "b.yaml")
		assert.ErrorIs(t, err, errMoved, "the pipeline was defined meanwhile")
		events := w.mustDefine(w.other, "b.yaml")
		require.NotEmpty(t, events)
		assert.Contains(t, string(events[0].Data), `"b.yaml":"`, "the revision under way is brought nothing")
		w.wantCarried(w.one, "a.yaml")
	})
}

func TestOfTwoWhoEndARevisionAtOnceOneDoes(t *testing.T) {
	withTwo(t, func(w atOnce) {
		w.mustDefine(w.one, "a.yaml")
		w.must(w.release(w.one))
		w.follow(w.other)
		results := make([]error, 2)
		var both sync.WaitGroup
		for i, by := range []struct {
			who  *query.Pipelines
			does pipeline.Command
		}{{w.one, pipeline.Skip{Revision: "1", By: "ann"}}, {w.other, pipeline.Cancel{Revision: "1", By: "bob"}}} {
			both.Go(func() { _, results[i] = by.who.Command(w.Context(), "gateway", by.does) })
		}
		both.Wait()
		var refused *refusal.Error
		if (results[0] == nil) == (results[1] == nil) || !errors.As(errors.Join(results...), &refused) || refused.Code != pipeline.NotRunning {
			t.Errorf("they are told %v and %v", results[0], results[1])
		}
		w.follow(w.one)
		r, err := w.one.Release("gateway", "1")
		w.must(err)
		if skipped := results[0] == nil; skipped != (r.Status == deployment.PassedOver) || skipped != (r.EndedBy == "ann") {
			t.Errorf("it is %s by %s", r.Status, r.EndedBy)
		}
	})
}

// defineTaking defines a pipeline of one stage, as "pipeline apply --yes" does; another one is
// its input, if any.
func (w atOnce) defineTaking(p *query.Pipelines, name, input string) error {
	text := "pipeline: " + name + "\nstages:\n  - name: prod\n    run: {manifest: a.yaml}\n"
	if input != "" {
		text += "    inputs: [{pipeline: " + input + ", passed: prod}]\n"
	}
	file := filepath.Join(w.app.Workspace, name+".yaml")
	require.NoError(w, os.WriteFile(file, []byte(text), 0o600))
	d, err := readDefinition(w.app, file)
	require.NoError(w, err)
	_, err = define(w.Context(), w.app, p.Log, p.Pipelines, change{Define: pipeline.Define{Definition: d}, inputs: usualInputs, yes: true})
	return err
}

// passes releases a revision of a pipeline and has it pass.
func (w atOnce) passes(p *query.Pipelines, name, revision string) {
	_, _, err := release(w.Context(), w.app, p, name, pipeline.Release{Revision: revision, ID: name + revision}, nil, usualInputs)
	w.must(err)
	for _, event := range []string{record.StageStarted, record.StageFinished} {
		_, err := p.Log.Append(w.Context(), deploylog.Event{Deployment: name + revision, Target: record.StageTarget(name, "prod"), Revision: revision, Name: event, Attempt: 1})
		w.must(err)
	}
}

func TestAReleaseTakesWhatThereIsWhenItIsRecorded(t *testing.T) {
	withTwo(t, func(w atOnce) {
		w.must(w.defineTaking(w.one, "config", ""))
		w.must(w.defineTaking(w.one, "app", "config"))
		w.passes(w.one, "config", "1")
		w.follow(w.other)
		w.passes(w.one, "config", "2")
		wanted := pipeline.Release{Revision: "7", ID: "app7"}
		if _, _, err := release(w.Context(), w.app, w.other, "app", wanted, nil, usualInputs); !errors.Is(err, errRedefined) {
			t.Errorf("another one has passed meanwhile: %v", err)
		}
		events, chosen, err := release(w.Context(), w.app, w.other, "app", wanted, nil, usualInputs)
		w.must(err)
		if len(chosen) != 1 || chosen[0].String() != "config 2" || !strings.Contains(string(events[0].Data), `"deployment":"config2"`) {
			t.Errorf("taken is %v: %s", chosen, events[0].Data)
		}
	})
}

// A pipeline that is changed again and again is not read forever.
func TestAReleaseIsGivenUpThatIsOvertakenAgainAndAgain(t *testing.T) {
	for name, c := range map[string]struct {
		changes, reads int
		says           string
	}{
		"never":      {0, 1, ""},
		"for a time": {3, 4, ""},
		"forever":    {1000, mostReads, "nothing is released: the pipeline was changed, or what the revision takes, each of the 10 times that the manifests of pipeline app were read"},
	} {
		t.Run(name, func(t *testing.T) {
			reads := 0
			err := whileRedefined("app", func() error {
				if reads++; reads <= c.changes {
					return errRedefined
				}
				return nil
			})
			if reads != c.reads || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("it was read %d times: %v", reads, err)
			}
		})
	}
}

func TestTwoDefinitionsAtOnceMakeNoCircle(t *testing.T) {
	withTwo(t, func(w atOnce) {
		w.must(w.defineTaking(w.one, "config", ""))
		w.must(w.defineTaking(w.one, "app", ""))
		w.follow(w.other)
		w.must(w.defineTaking(w.one, "app", "config"))
		assert.ErrorContains(t, w.defineTaking(w.other, "config", "app"), "config takes app, app takes config", "the other way round")
	})
}
