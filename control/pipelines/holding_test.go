package pipelines_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/step"
)

// twoOnHosts defines pipelines p and q, both of which deploy with three steps to hosts that
// are the same machines, and releases revision 1 of p.
func (p *plant) twoOnHosts(retries int, hosts ...string) {
	p.Helper()
	p.members = map[string][]string{"g": hosts, "gq": hosts}
	s := steps("host-1", "host-2", "host-3")
	for i := range s {
		s[i].Retries = retries
	}
	p.define(deployTo("all", "g", s))
	q := &definition.Definition{Name: "q", Stages: []definition.Stage{deployTo("all", "gq", s)}}
	p.doQ(pipeline.Define{Definition: q, ID: p.id()})
	p.release("1")
}

func (p *plant) doQ(c pipeline.Command) {
	p.Helper()
	_, err := p.pipelines.Command(p.Context(), "q", c)
	require.NoError(p, err)
}

// inOrder is what was begun, in order.
func (p *plant) inOrder() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.begun)
}

// wantInARow holds that on each host the steps of a revision come one after the other.
func (p *plant) wantInARow(hosts ...string) {
	p.Helper()
	for _, host := range hosts {
		var revisions []string
		for _, line := range p.inOrder() {
			if revision, on := strings.Fields(line)[0], strings.HasSuffix(line, " "+host); on {
				revisions = append(revisions, revision)
			}
		}
		runs := slices.Compact(slices.Clone(revisions))
		assert.True(p, len(runs) == 2 && len(revisions) >= 6, "on host %s the steps are of revisions %q", host, revisions)
	}
}

func TestTheStepsOfAPipelineOnAHostComeInARow(t *testing.T) {
	for _, parallelism := range []int{1, 2, 10} {
		t.Run(fmt.Sprint(parallelism, " at once"), func(t *testing.T) {
			inPlant(t, func(p *plant) {
				p.twoOnHosts(20, "a", "b", "c")
				p.doQ(pipeline.Release{Revision: "1q", ID: p.id()})
				p.options.Parallelism = parallelism
				random := rand.New(rand.NewPCG(1, uint64(parallelism)))
				p.work = func(step.Step) error {
					p.mu.Lock()
					takes, fails := random.IntN(1000), random.IntN(4) == 0
					p.mu.Unlock()
					<-time.After(time.Duration(takes) * time.Millisecond)
					if fails {
						return errors.New("no")
					}
					return nil
				}
				p.untilIdle()
				p.wantInARow("a", "b", "c")
				p.wantFinished("1")
				p.wantFinished("1q")
			})
		})
	}
}

func TestWhatRestsHoldsItsHostUntilItsDeploymentEnds(t *testing.T) {
	for name, end := range map[string]func(p *plant){
		"cancelled":           func(p *plant) { p.do(pipeline.Cancel{Revision: "1"}) },
		"the pipeline pauses": func(p *plant) { p.do(pipeline.PausePipeline{ID: p.id()}) },
		"its hosts are gone":  func(p *plant) { p.inventory(nil, "g"); wait(2 * time.Second) },
		"deleted":             func(p *plant) { p.do(pipeline.Delete{ID: p.id(), Cancel: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			inPlant(t, func(p *plant) {
				p.twoOnHosts(100, "a")
				p.work = func(s step.Step) error {
					if s.Revision == "1" && s.Event == "host-2" {
						return errors.New("no")
					}
					return nil
				}
				r := p.start()
				p.doQ(pipeline.Release{Revision: "1q", ID: p.id()})
				wait(10 * time.Minute)
				begun := p.hasBegun()
				assert.False(t, slices.Contains(begun, "1q host-1 a"), "begun are %q", begun)
				end(p)
				wait(time.Minute)
				p.wantFinished("1q")
				r.end()
			})
		})
	}
}

func TestWhoTakesOverLeavesAHostToThePipelineThatHasBegunThere(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.twoOnHosts(3, "a")
		p.doQ(pipeline.Release{Revision: "1q", ID: p.id()})
		began := make(chan struct{}, 100)
		p.work = func(step.Step) error { began <- struct{}{}; <-time.After(time.Second); return nil }
		for range 6 { // each is killed in the midst of a step
			r := p.start()
			<-began
			wait(1500 * time.Millisecond)
			r.kill()
			<-r.ended
		}
		p.untilIdle()
		p.wantInARow("a")
		p.wantFinished("1")
		p.wantFinished("1q")
	})
}

// givesUp has revision 1 of p begin on a host and give its slot up between two steps, and q
// begin there, each of whose steps takes five minutes.
func (p *plant) givesUp(how func()) *running {
	p.Helper()
	p.twoOnHosts(100, "a")
	p.killed = make(chan struct{})
	p.work = func(s step.Step) error {
		if s.Revision == "1" && s.Event == "host-2" && !slices.Contains(p.inOrder(), "1q host-1 a") {
			return errors.New("no")
		}
		select {
		case <-time.After(5 * time.Minute):
			return nil
		case <-p.killed:
			return errors.New("killed")
		}
	}
	r := p.start()
	p.doQ(pipeline.Release{Revision: "1q", ID: p.id()})
	wait(10 * time.Minute)
	how()
	wait(2 * time.Minute)
	require.True(p, slices.Contains(p.inOrder(), "1q host-1 a"), "begun are %q", p.inOrder())
	return r
}

// ways are those in which a deployment gives its slots up, and goes on later.
var ways = map[string]struct{ off, on func(p *plant) }{
	"paused and resumed":      {func(p *plant) { p.do(pipeline.PausePipeline{ID: p.id()}) }, func(p *plant) { p.do(pipeline.ResumePipeline{ID: p.id()}) }},
	"cancelled and retried":   {func(p *plant) { p.do(pipeline.Cancel{Revision: "1"}) }, func(p *plant) { p.do(pipeline.Retry{Revision: "1"}) }},
	"its group holds no more": {func(p *plant) { p.inventory(nil, "g"); wait(2 * time.Second) }, func(p *plant) { p.inventory(nil, "g", "a"); wait(2 * time.Second) }},
}

// So does a scheduler that takes over: it finds the one at work on the host and the one that waits
// for it, whichever of the pipelines it comes by first.
func TestWhoGoesOnWaitsForWhoBeganOnTheHostMeanwhile(t *testing.T) {
	for name, way := range ways {
		for _, dies := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the scheduler dies: %t", name, dies), func(t *testing.T) {
				inPlant(t, func(p *plant) {
					r := p.givesUp(func() { way.off(p) })
					before := len(p.inOrder())
					way.on(p)
					if dies {
						wait(time.Minute)
						r.kill()
						close(p.killed)
						<-r.ended
						p.killed = nil
						before = len(p.inOrder())
						p.untilIdle()
					} else {
						wait(time.Hour)
						r.end()
					}
					p.wantFinished("1")
					p.wantFinished("1q")
					after := p.inOrder()[before:]
					assert.True(t, len(after) >= 4 && strings.HasPrefix(after[0], "1q ") && strings.HasPrefix(after[1], "1q "), "then begun are %q", after)
				})
			})
		}
	}
}
