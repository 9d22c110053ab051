package packages

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	buildrecord "github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/internal/must"
)

// All stages of a scheduler share what is folded: one may fold the end of the group of another, between two looks of that.
func TestAnEndThatAnotherStageFoldedIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := reconciletest.InMemory(t)()
		p := &Stages{Options: pipelines.Options{Options: reconcile.Options{Log: log, Now: time.Now}}, builds: builds.New(log, time.Now)}
		events := must.Get(p.builds.Command(t.Context(), build.Submit{
			Triggered: buildrecord.Triggered{Name: "base", MaxLost: 3}, Places: []buildrecord.Place{{Platform: "linux/amd64"}},
			Jobs: []buildrecord.JobSpec{{Package: "gcc", Inputs: "z"}},
		}))(t)
		id := events[0].Deployment
		_, seen, err := p.report(id)
		require.NoError(t, err)
		must.Get(p.builds.Command(t.Context(), build.Cancel{Group: id}))(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		assert.NoError(t, p.moves(ctx, id, seen), "the end is never seen")
	})
}
