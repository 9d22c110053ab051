package pipelines_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// refusing is an engine that nobody can connect to: nothing of a run is in the log.
type refusing struct{ *plant }

func (r refusing) Work(context.Context, step.Step, map[string]string, func() error) (map[string]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = append(r.begun, time.Now().Format(time.TimeOnly))
	return nil, errors.New("host a: connection refused")
}

// tries are what the log tells of tries that failed, as "TRY of EVENT by WHO: ERROR".
func (p *plant) tries() (all []string) {
	p.Helper()
	for _, e := range p.events() {
		var data struct {
			By, Error string
			Try       int
			Steps     []struct {
				Event, Outcome, Error string
				Try                   int
			}
		}
		if err := json.Unmarshal(e.Data, &data); err != nil && len(e.Data) > 0 {
			p.Fatal(err)
		}
		switch {
		case e.Name == record.StepsEnded:
			for _, s := range data.Steps {
				all = append(all, fmt.Sprintf("%d of %s by %s %s: %s", s.Try, s.Event, data.By, s.Outcome, s.Error))
			}
		case data.Try > 0:
			all = append(all, fmt.Sprintf("%d of %s by %s: %s", data.Try, e.Name, data.By, data.Error))
		}
	}
	return all
}

func TestEveryTryThatFailedIsAnEventAlsoOneThatNeverBegan(t *testing.T) {
	inPlant(t, func(p *plant) {
		s := steps("host-deployed")
		s[0].Retries = 2
		p.rollOut(s, "a")
		p.options.Worker, p.options.By = refusing{p}, "scheduler ada@desk"
		p.untilIdle()
		want := []string{
			"1 of host-deployed by scheduler ada@desk failed: host a: connection refused",
			"2 of host-deployed by scheduler ada@desk failed: host a: connection refused",
			"3 of host-deployed-failed by scheduler ada@desk: host a: connection refused",
		}
		assert.Equal(t, want, p.tries(), "the log tells of the tries")
		p.wantStatus("1", deployment.Failed)
		p.do(pipeline.Retry{Revision: "1"})
		p.untilIdle()
		got := p.tries()
		assert.True(t, len(got) == 6 && got[3] == want[0], "after a retry the log tells of the tries %q", got)
	})
}

// The schedulers take turns: each is killed when it has tried once more.
func TestTriesAndTheirPausesAreThoseOfTheLogWhoeverSchedules(t *testing.T) {
	inPlant(t, func(p *plant) {
		s := steps("host-deployed")
		s[0].Retries = 5
		p.rollOut(s, "a")
		p.options.Worker = refusing{p}
		began := time.Now()
		for range 6 {
			before := len(p.hasBegun())
			r := p.start()
			for len(p.hasBegun()) == before {
				wait(100 * time.Millisecond)
			}
			r.kill()
			<-r.ended
		}
		var want []string
		for _, after := range []int{0, 1, 3, 7, 15, 31} {
			want = append(want, began.Add(time.Duration(after)*time.Second).Format(time.TimeOnly))
		}
		p.wantBegun(want...)
		p.untilIdle()
		p.wantBegun(want...)
		p.wantStatus("1", deployment.Failed)
	})
}

func TestAStepThatCannotBeginForAnHourWritesFewEvents(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.rollOut(retried("host-deployed"), "a")
		p.options.Worker = refusing{p}
		r := p.start()
		wait(time.Hour)
		n, tries := len(p.events()), len(p.tries())
		assert.True(t, n <= 150 && tries == 65, "in an hour there are %d events, of %d tries", n, tries)
		r.end()
	})
}

// The work fails as often as the log tells that it did not fail twice yet.
func TestWhoeverDiesWhereverATryIsCountedOnce(t *testing.T) {
	carry := func(t *testing.T, lives int, last bool) (story []string, appends int) {
		inPlant(t, func(p *plant) {
			p.rollOut(retried("host-deployed"), "a")
			m := &reconciletest.Mortal{Log: p.log, Lives: lives, Last: last}
			p.options.Log, p.options.UntilIdle = m, true
			p.work = func(step.Step) error {
				if n := len(p.tries()); n < 2 {
					return fmt.Errorf("failure %d", n+1)
				}
				return nil
			}
			for errors.Is(pipelines.NewScheduler(p.options).Run(p.Context()), reconciletest.ErrDead) {
				p.options.Log = p.takenOver()
			}
			story, appends = p.told(), m.Calls()
		})
		return story, appends
	}
	sameWhereverItDies(t, 1, carry)
}
