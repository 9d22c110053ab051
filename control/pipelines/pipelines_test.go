package pipelines_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline"
)

func TestAllSeeTheSamePipelinesWhoeverChangesThem(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	p.define(runStage("only"))
	const each = 20
	var group sync.WaitGroup
	all := []*pipelines.Pipelines{p.pipelines}
	for range 2 {
		all = append(all, pipelines.New(p.open(), time.Now))
	}
	for who, q := range all {
		group.Go(func() {
			for i := range each {
				c := pipeline.Release{Revision: fmt.Sprint(i), ID: fmt.Sprintf("%d-%d", who, i)}
				if _, err := q.Command(t.Context(), "p", c); err != nil && !errors.Is(err, pipeline.ErrRepeated) {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	events := p.events()
	assert.True(t, len(events) == 1+each, "there are %d events, not one for each of %d revisions", len(events), each)
	for _, q := range all {
		require.NoError(t, q.Follow(t.Context(), 0))
		err := q.Ask("p", func(s *pipeline.State) error {
			for i, r := range s.Registrations() {
				assert.True(t, r.Deployment == events[i+1].Deployment && r.Seq == events[i+1].Seq, "registration %d is %+v", i, r)
			}
			return nil
		})
		assert.True(t, err == nil && q.Head() == int64(len(events)), "head is %d, %v", q.Head(), err)
	}
}

func TestEveryEventIsPassedOnceAndInOrder(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	var seen []int64
	q := pipelines.New(p.log, time.Now, func(e deploylog.Event) { seen = append(seen, e.Seq) })
	p.define(runStage("only"))
	for i := range 3 {
		p.release(fmt.Sprint("of another ", i))
		_, err := q.Command(t.Context(), "p", pipeline.Release{Revision: fmt.Sprint(i), ID: p.id()})
		require.NoError(t, err)
	}
	_, err := q.Change(t.Context(), "p", false, func(s *pipeline.State) ([]deploylog.Event, error) {
		if _, err := p.log.Append(t.Context(), deploylog.Event{Deployment: "run", Target: "run/web.yaml", Name: "run-started"}); err != nil {
			return nil, err
		}
		return s.Propose(pipeline.Release{Revision: "last", ID: p.id()}, time.Time{})
	})
	require.NoError(t, err)
	want := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}
	assert.True(t, slices.Equal(seen, want), "passed were %v, not %v", seen, want)
}

func TestPipelinesAreAsTheyWereAtAnEvent(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	p.define(runStage("only"))
	p.release("1")
	p.release("2")
	q := pipelines.New(p.log, time.Now)
	require.NoError(t, q.Follow(t.Context(), 2))
	_ = q.Ask("p", func(s *pipeline.State) error {
		assert.Len(t, s.Registrations(), 1, "it knows")
		return nil
	})
}

func TestAPipelineThatThereIsNotIsSaidSo(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	ask := func(*pipeline.State) error { return nil }
	refused := func(err error, want string) {
		t.Helper()
		assert.True(t, errors.Is(err, pipelines.ErrNoPipeline) && strings.Contains(err.Error(), want), "it says %v, not %q", err, want)
	}
	refused(p.pipelines.Ask("q", ask), "there is none yet: deployster pipeline apply -f FILE")
	_, err := p.pipelines.Command(t.Context(), "q", pipeline.Release{Revision: "1", ID: "d"})
	refused(err, "there is none yet")
	p.define(runStage("only"))
	refused(p.pipelines.Ask("q", ask), `"q"; there are p`)
	assert.Len(t, p.events(), 1, "it recorded")
}

func TestAChangeThatIsRefusedRecordsNothingAndLetsOthersIn(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	p.define(runStage("only"))
	no := errors.New("no")
	_, err := p.pipelines.Change(t.Context(), "p", false, func(*pipeline.State) ([]deploylog.Event, error) { return nil, no })
	assert.True(t, errors.Is(err, no) && len(p.events()) == 1, "it says %v, and recorded %v", err, p.events())
	p.release("1")
}

func TestWhoWaitsForTheDecideLockCanGiveUp(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	p.define(runStage("only"))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := p.pipelines.Change(t.Context(), "p", false, func(*pipeline.State) ([]deploylog.Event, error) {
		cancel()
		_, err := pipelines.New(p.log, time.Now).Command(ctx, "p", pipeline.Release{Revision: "1", ID: "d"})
		return nil, err
	})
	assert.ErrorIs(t, err, context.Canceled, "it says")
}
