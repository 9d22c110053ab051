package pipelines_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/step"
)

// ending is an engine whose work ends when its context does, and after so long.
type ending struct {
	*plant
	after time.Duration
}

func (w ending) Work(ctx context.Context, s step.Step, _ map[string]string, _ func() error) (map[string]string, error) {
	w.mu.Lock()
	w.begun = append(w.begun, say(s))
	w.mu.Unlock()
	<-ctx.Done()
	<-time.After(w.after)
	return nil, errors.New("killed")
}

func timed(retries int) []definition.HostStep {
	s := steps("host-deployed")
	s[0].Retries, s[0].Timeout = retries, definition.Duration(5*time.Minute)
	return s
}

func TestWorkThatTakesTooLongIsStoppedAndItsTryHasFailed(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.rollOut(timed(1), "a")
		p.options.Worker = ending{plant: p}
		before := time.Now()
		p.untilIdle()
		took := time.Since(before)
		assert.True(t, took == 10*time.Minute+time.Second, "two tries took %v", took)
		p.wantStatus("1", deployment.Failed)
		for _, try := range p.tries() {
			assert.True(t, strings.HasSuffix(try, "it took longer than its timeout of 5m, and was stopped: killed"),
				"the log tells of the try %q", try)
		}
	})
}

// The engine answers neither when the work is stopped nor when its deployment is cancelled:
// the slots are free after a while, the next revision waits, and the end is recorded when
// it comes.
func TestWorkThatDoesNotEndGivesItsSlotsBack(t *testing.T) {
	for name, c := range map[string]struct {
		stop   func(p *plant)
		within time.Duration
	}{
		"when its deployment was cancelled": {func(p *plant) { p.do(pipeline.Cancel{Revision: "1"}) }, 65 * time.Second},
		"when its timeout has passed":       {func(*plant) {}, 5*time.Minute + 15*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inPlant(t, func(p *plant) {
				p.rollOut(timed(1), "a")
				p.options.Parallelism = 1
				result := make(chan error)
				p.work = func(s step.Step) error {
					if s.Host == "a" {
						return <-result
					}
					return nil
				}
				r := p.start()
				c.stop(p)
				p.release("2")
				p.other("1q") // which needs the only slot of the scheduler
				wait(c.within / 2)
				assert.False(t, slices.Contains(p.hasBegun(), "1q stage-manifest-applied"), "the slot is given back too early")
				wait(c.within)
				p.wantFinished("1q")
				assert.True(t, !p.entered("2") && slices.Equal(p.hasBegun(), []string{"1 host-deployed a", "1q stage-manifest-applied"}),
					"begun are %q", p.hasBegun())
				result <- nil
				wait(time.Second)
				assert.True(t, slices.Contains(p.story("1"), "host-deployed p/g/a"), "the late end is not recorded: %q", p.story("1"))
				close(result)
				wait(time.Minute)
				p.wantStatus("2", deployment.Finished)
				r.end()
			})
		})
	}
}

// An engine that did not answer for long answers again: what it has not begun by then is not
// begun any more, since nobody wants it.
func TestWhatHasNotBegunWhenItsDeploymentEndsIsNotBegun(t *testing.T) {
	for name, c := range map[string]struct {
		stop func(p *plant)
		then []string
	}{
		"cancelled":                 {func(p *plant) { p.do(pipeline.Cancel{Revision: "1"}) }, []string{"2 host-deployed a"}},
		"cancelled and tried again": {func(p *plant) { p.do(pipeline.Cancel{Revision: "1"}); p.do(pipeline.Retry{Revision: "1"}) }, []string{"1 host-deployed a", "2 host-deployed a"}},
		"still wanted":              {func(*plant) {}, []string{"1 host-deployed a", "2 host-deployed a"}},
	} {
		t.Run(name, func(t *testing.T) {
			inPlant(t, func(p *plant) {
				p.rollOut(steps("host-deployed"), "a")
				answers, first := make(chan bool), true
				p.before = func(step.Step) {
					if first {
						first = false
						<-answers
					}
				}
				r := p.start()
				c.stop(p)
				p.release("2")
				wait(10 * time.Minute)
				assert.Empty(t, p.hasBegun(), "begun are")
				close(answers)
				wait(time.Minute)
				got := p.hasBegun()
				assert.True(t, slices.Equal(got, c.then), "begun are %q, not %q", got, c.then)
				p.wantStatus("2", deployment.Finished)
				r.end()
			})
		})
	}
}
