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
	if len(events) != 1+each {
		t.Errorf("there are %d events, not one for each of %d revisions", len(events), each)
	}
	for _, q := range all {
		if err := q.Follow(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		err := q.Ask("p", func(s *pipeline.State) error {
			for i, r := range s.Registrations() {
				if r.Deployment != events[i+1].Deployment || r.Seq != events[i+1].Seq {
					t.Errorf("registration %d is %+v", i, r)
				}
			}
			return nil
		})
		if err != nil || q.Head() != int64(len(events)) {
			t.Errorf("head is %d, %v", q.Head(), err)
		}
	}
}

func TestEveryEventIsPassedOnceAndInOrder(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	var seen []int64
	q := pipelines.New(p.log, time.Now, func(e deploylog.Event) { seen = append(seen, e.Seq) })
	p.define(runStage("only"))
	for i := range 3 {
		p.release(fmt.Sprint("of another ", i))
		if _, err := q.Command(t.Context(), "p", pipeline.Release{Revision: fmt.Sprint(i), ID: p.id()}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := q.Change(t.Context(), "p", false, func(s *pipeline.State) ([]deploylog.Event, error) {
		if _, err := p.log.Append(t.Context(), deploylog.Event{Deployment: "run", Target: "run/web.yaml", Name: "run-started"}); err != nil {
			return nil, err
		}
		return s.Propose(pipeline.Release{Revision: "last", ID: p.id()}, time.Time{})
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(seen, want) {
		t.Errorf("passed were %v, not %v", seen, want)
	}
}

func TestPipelinesAreAsTheyWereAtAnEvent(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	p.define(runStage("only"))
	p.release("1")
	p.release("2")
	q := pipelines.New(p.log, time.Now)
	if err := q.Follow(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	_ = q.Ask("p", func(s *pipeline.State) error {
		if r := s.Registrations(); len(r) != 1 {
			t.Errorf("it knows %v", r)
		}
		return nil
	})
}

func TestAPipelineThatThereIsNotIsSaidSo(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	ask := func(*pipeline.State) error { return nil }
	refused := func(err error, want string) {
		t.Helper()
		if !errors.Is(err, pipelines.ErrNoPipeline) || !strings.Contains(err.Error(), want) {
			t.Errorf("it says %v, not %q", err, want)
		}
	}
	refused(p.pipelines.Ask("q", ask), "there is none yet: deployster pipeline apply -f FILE")
	_, err := p.pipelines.Command(t.Context(), "q", pipeline.Release{Revision: "1", ID: "d"})
	refused(err, "there is none yet")
	p.define(runStage("only"))
	refused(p.pipelines.Ask("q", ask), `"q"; there are p`)
	if events := p.events(); len(events) != 1 {
		t.Errorf("it recorded %v", events)
	}
}

func TestAChangeThatIsRefusedRecordsNothingAndLetsOthersIn(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	p.define(runStage("only"))
	no := errors.New("no")
	_, err := p.pipelines.Change(t.Context(), "p", false, func(*pipeline.State) ([]deploylog.Event, error) { return nil, no })
	if !errors.Is(err, no) || len(p.events()) != 1 {
		t.Errorf("it says %v, and recorded %v", err, p.events())
	}
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
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it says %v", err)
	}
}
