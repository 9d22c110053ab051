package pipeline

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/record"
)

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

// What a release takes is as of the event that records it, not as of when it began.
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

// Two definitions at once do not make a circle together.
func TestTwoDefinitionsAtOnceMakeNoCircle(t *testing.T) {
	withTwo(t, func(w atOnce) {
		w.must(w.defineTaking(w.one, "config", ""))
		w.must(w.defineTaking(w.one, "app", ""))
		w.follow(w.other)
		w.must(w.defineTaking(w.one, "app", "config"))
		assert.ErrorContains(t, w.defineTaking(w.other, "config", "app"), "config takes app, app takes config", "the other way round")
	})
}
