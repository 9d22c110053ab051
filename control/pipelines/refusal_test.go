package pipelines_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
)

func (p *plant) wantFinished(revision string) {
	p.Helper()
	story := p.story(revision)
	assert.True(p, len(story) != 0 && strings.HasPrefix(story[len(story)-1], "pipeline-finished-successfully"),
		"of %s the log tells %q", revision, story)
}

func TestAPipelineThatTheLogRefusesIsLeftOutAndTheOthersGoOn(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*plant)
		is    error
		event string
	}{
		"what comes next is in the log, where it makes no sense": {func(p *plant) {
			p.define(runStage("only"))
			p.append(deploylog.Event{Deployment: "deployment-of-1", Target: "stage/p/only", Revision: "1", Name: "stage-started"})
			p.release("1")
		}, deploylog.ErrDuplicate, "stage-started"},
		"a stage has a name that no log takes": {func(p *plant) {
			p.append(deploylog.Event{Deployment: "d", Target: "pipeline/p", Name: record.PipelineDefined, Data: []byte(`{"definition":{"name":"p","stages":[{"name":"a\u0007b","run":{"manifest":"m.yaml"}}]}}`)})
			p.release("1")
		}, deploylog.ErrInvalid, "stage-started"},
		"a host group has a name that no log takes": {func(p *plant) {
			p.define(deployTo("hosts", "g\a", steps("host-deployed")))
			p.release("1")
		}, deploylog.ErrInvalid, record.MembersChanged},
	} {
		t.Run(name, func(t *testing.T) {
			inPlant(t, func(p *plant) {
				c.spoil(p)
				p.other("1q")
				p.options.UntilIdle = true
				err := pipelines.NewScheduler(p.options).Run(p.Context())
				assert.True(t, errors.Is(err, c.is) && strings.Contains(err.Error(), "pipeline p was left out"), "it ended with %v", err)
				p.wantFinished("1q")
				p.options.UntilIdle = false
				r := p.start()
				p.mu.Lock()
				p.notified = nil
				p.mu.Unlock()
				wait(time.Minute)
				p.release("2") // is something new, but does not help
				wait(time.Minute)
				r.end()
				got := p.notices("notice")
				assert.True(t, len(got) == 0, "notified again and again: %q", got)
			})
		})
	}
}

func TestWhoIsLeftOutIsNoticedOnceWithItsEvent(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(runStage("only"))
		p.append(deploylog.Event{Deployment: "deployment-of-1", Target: "stage/p/only", Revision: "1", Name: "stage-started"})
		p.release("1")
		r := p.start()
		wait(time.Minute)
		if got := p.notices("notice"); len(got) != 1 || !strings.Contains(got[0], "pipeline p is left out until something new of it is in the log") || !strings.Contains(got[0], "stage-started of stage/p/only") {
			t.Errorf("notified %q", got)
		}
		p.do(pipeline.Cancel{Revision: "1"})
		p.release("2")
		wait(time.Second)
		p.wantStatus("2", deployment.Finished)
		r.end()
	})
}

// What others did at the same time is in the log though one thing cannot be.
func TestWhatTheLogCannotTakeKeepsNothingElseOut(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(runStage("only"))
		p.other("1q")
		p.release("1")
		results := p.holdWork()
		p.options.Log = &reconciletest.Hooked{Log: p.log, Event: "stage-manifest-applied", Hook: reconciletest.Refuse("stage/p/only")}
		r := p.start()
		end := p.hang() // so that both outcomes are there at once
		results <- nil
		results <- nil
		end()
		wait(time.Second)
		p.wantFinished("1q")
		story := p.story("1")
		assert.False(t, slices.Contains(story, "stage-manifest-applied p/only"), "the log tells %q", story)
		assert.True(t, len(p.notices("pipeline p is left out")) == 1, "notified %q", p.notified)
		r.end()
	})
}

func TestAnArtifactWhoseReferenceIsNoneFailsItsStepAndNothingElse(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(definition.Stage{Name: "build", Build: &definition.Build{Artifacts: []string{"x86"}, Manifest: "b.yaml"}})
		p.other("1q")
		p.release("1")
		p.made = map[string]string{"x86": strings.Repeat("x", 2<<20)}
		p.untilIdle()
		p.wantStatus("1", deployment.Failed)
		p.wantFinished("1q")
		story := p.story("1")
		assert.True(t, slices.Contains(story, "stage-manifest-applied-failed p/build"), "the log tells %q", story)
	})
}
