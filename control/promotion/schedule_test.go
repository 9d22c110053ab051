package promotion_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	envrecord "github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// Members implements pipelines.Hosts: no stage of these tests has any.
func (hosts) Members(*definition.Definition) (map[string][]string, error) { return nil, nil }
func (hosts) Slots(string) int                                            { return 1 }

// silent is an observer who is told nothing.
type silent struct{}

func (silent) Recorded(deploylog.Event)              {}
func (silent) Notice(string)                         {}
func (silent) Began(step.Step)                       {}
func (silent) Again(step.Step, error, time.Duration) {}

// scheduled is a pipeline in the log whose only stage deploys to the environment, at which a scheduler is.
func (p *promoted) scheduled() (do func(c pipeline.Command), end func()) {
	var ids atomic.Int64
	newID := func() string { return fmt.Sprint("id-", ids.Add(1)) }
	o := p.promotion.Options
	o.Options = reconcile.Options{Log: p.log, Now: time.Now, Drain: p.stop, Parallelism: 1}
	o.Worker, o.Observer, o.NewID = p.promotion, silent{}, newID
	all := pipelines.New(p.log, time.Now)
	do = func(c pipeline.Command) {
		must.Get(all.Command(p.Context(), "gateway", c))(p)
		reconciletest.Wait(time.Second)
	}
	do(pipeline.Define{ID: newID(), Definition: &definition.Definition{
		Name: "gateway", Stages: []definition.Stage{{Name: "prod", Environment: prod.Environment}},
	}})
	ended := make(chan error, 1)
	go func() { ended <- pipelines.NewScheduler(o).Run(context.Background()) }()
	return do, func() { close(p.stop); assert.NoError(p, <-ended) }
}

func (p *promoted) count(name string) (n int) {
	for _, err := range p.log.Read(p.Context(), deploylog.Filter{Name: name}) {
		require.NoError(p, err)
		n++
	}
	return n
}

// A deployment that goes badly has no end of its own: who cancels the revision wants another
// one there, and waits for nothing of it.
func TestACancelledRevisionWaitsForItsEnvironmentNoMore(t *testing.T) {
	for name, next := range map[string]struct {
		command pipeline.Command
		kind    envrecord.DeploymentKind
	}{
		"and the stage is rolled back": {pipeline.Rollback{Stage: "prod", ID: "back"}, envrecord.ByRollback},
		"and another comes":            {pipeline.Release{Revision: "44", ID: "44"}, envrecord.ByDeploy},
		"and is retried":               {pipeline.Retry{Revision: "43"}, envrecord.ByDeploy},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPromoted(t)
				do, end := p.scheduled()
				do(pipeline.Release{Revision: "42", ID: "42"})
				p.finish(p.until(envrecord.EnvironmentStarted, 0))
				reconciletest.Wait(time.Second)
				do(pipeline.Release{Revision: "43", ID: "43"})
				p.wantDeployments(2)
				do(pipeline.Cancel{Revision: "43"})
				assert.Equal(t, 1, p.count(record.StepsEnded), "works were settled")
				do(next.command)
				p.wantDeployments(3)
				assert.Equal(t, next.kind, p.state().Deployments()[2].Kind, "the last deployment")
				end()
			})
		})
	}
}
