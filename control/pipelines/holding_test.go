package pipelines_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// twoOnHosts defines pipelines p and q, both of which deploy with three steps to hosts that
// are the same machines, and releases revision 1 of p.
func (p *plant) twoOnHosts(retries int, hosts ...string) {
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

func (p *plant) doQ(c pipeline.Command) { must.Get(p.pipelines.Command(p.Context(), "q", c))(p) }

func (p *plant) inOrder() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.begun)
}

// wantInARow holds that on each host the steps of a revision come one after the other.
func (p *plant) wantInARow(hosts ...string) {
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
				r.End()
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
			r.Kill(nil)
			<-r.Ended
		}
		p.untilIdle()
		p.wantInARow("a")
		p.wantFinished("1")
		p.wantFinished("1q")
	})
}

// givesUp has revision 1 of p begin on a host and give its slot up between two steps, and q
// begin there, each of whose steps takes five minutes.
func (p *plant) givesUp(how func()) *reconciletest.Process {
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
						r.Kill(nil)
						close(p.killed)
						<-r.Ended
						p.killed = nil
						before = len(p.inOrder())
						p.untilIdle()
					} else {
						wait(time.Hour)
						r.End()
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

func TestWhatNeedsNoSlotIsDoneWhileAllAreTaken(t *testing.T) {
	inPlant(t, func(p *plant) {
		var hosts []string
		for i := range 2000 {
			hosts = append(hosts, fmt.Sprintf("h%04d", i))
		}
		p.members["g"] = hosts
		p.options.Parallelism = 2
		scans := atomic.Int64{} // each takes a second, which is too long to scan often
		p.options.Now = func() time.Time { return time.Now().Add(time.Duration(scans.Add(1)) * time.Second) }
		p.define(deployTo("hosts", "g", steps("host-deployed")), approval("ok"))
		p.release("1")
		results := p.holdWork()
		r := p.start()
		p.do(pipeline.Approve{Stage: "ok", Revision: "1"})
		wait(300 * time.Millisecond)
		assert.True(t, slices.Contains(p.story("1"), "stage-finished-successfully p/ok"), "the approved stage waits for hosts")
		p.wantBegun("1 host-deployed h0000", "1 host-deployed h0001")
		close(r.Stop)
		results <- nil
		results <- nil
		<-r.Ended
		r.Kill(nil)
	})
}

type counting struct {
	deploylog.Log
	mu    sync.Mutex
	locks int
}

func (c *counting) Lock(ctx context.Context, name string) (func(), error) {
	c.mu.Lock()
	c.locks++
	c.mu.Unlock()
	return c.Log.Lock(ctx, name)
}

func TestWhatItRecordsItselfAndWhatRunsRecordWakesNobody(t *testing.T) {
	inPlant(t, func(p *plant) {
		c := &counting{Log: p.DeployLog}
		p.options.Log = c
		p.define(runStage("only"))
		r := p.start()
		p.release("1")
		synctest.Wait()
		wait(300 * time.Millisecond)
		p.wantStatus("1", deployment.Finished)
		before := c.locks
		for i := range 100 {
			_, err := p.DeployLog.Append(p.Context(), deploylog.Event{Deployment: fmt.Sprint(i), Target: "resource/db", Name: "resource-started"})
			require.NoError(t, err)
		}
		wait(300 * time.Millisecond)
		assert.True(t, c.locks == before && before <= 7, "it held %d passes, and then %d", before, c.locks-before)
		r.End()
	})
}

func (p *plant) wantFinished(revision string) {
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
				p.Forget()
				wait(time.Minute)
				p.release("2") // is something new, but does not help
				wait(time.Minute)
				r.End()
				got := p.Notices("notice")
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
		if got := p.Notices("notice"); len(got) != 1 || !strings.Contains(got[0], "pipeline p is left out until something new of it is in the log") || !strings.Contains(got[0], "stage-started of stage/p/only") {
			t.Errorf("notified %q", got)
		}
		p.do(pipeline.Cancel{Revision: "1"})
		p.release("2")
		wait(time.Second)
		p.wantStatus("2", deployment.Finished)
		r.End()
	})
}

// What others did at the same time is in the log though one thing cannot be.
func TestWhatTheLogCannotTakeKeepsNothingElseOut(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(runStage("only"))
		p.other("1q")
		p.release("1")
		results := p.holdWork()
		p.options.Log = &reconciletest.Hooked{Log: p.DeployLog, Event: "stage-manifest-applied", Hook: reconciletest.Refuse("stage/p/only")}
		r := p.start()
		end := p.hang() // so that both outcomes are there at once
		results <- nil
		results <- nil
		end()
		wait(time.Second)
		p.wantFinished("1q")
		story := p.story("1")
		assert.False(t, slices.Contains(story, "stage-manifest-applied p/only"), "the log tells %q", story)
		assert.True(t, len(p.Notices("pipeline p is left out")) == 1, "notified %q", p.Notices(""))
		r.End()
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
