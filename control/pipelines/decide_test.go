package pipelines_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/step"
)

// Hosts of two pipelines are the same machines, each with two slots.
func TestNeitherSlotsNorParallelismAreExceeded(t *testing.T) {
	for _, c := range []struct{ parallelism, slots, most, mostOnHost int }{
		{5, 1, 5, 1}, {100, 1, 12, 1}, {100, 2, 24, 2}, {100, 9, 36, 3}, {1, 5, 1, 1},
	} {
		t.Run(fmt.Sprintf("%d at once and %d slots", c.parallelism, c.slots), func(t *testing.T) {
			inPlant(t, func(p *plant) {
				hosts := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}
				p.members, p.slots, p.options.Parallelism = map[string][]string{"g1": hosts, "g2": hosts, "g3": hosts}, c.slots, c.parallelism
				p.define(deployTo("s1", "g1", steps("host-deployed", "host-tested")), deployTo("s2", "g2", steps("host-deployed")), deployTo("s3", "g3", steps("host-deployed")))
				p.release("1")
				on, most, all, mostAll := map[string]int{}, 0, 0, 0
				p.work = func(s step.Step) error {
					p.mu.Lock()
					on[s.Host]++
					all++
					most, mostAll = max(most, on[s.Host]), max(mostAll, all)
					p.mu.Unlock()
					<-time.After(time.Duration(s.Host[0]) * time.Millisecond)
					p.mu.Lock()
					defer p.mu.Unlock()
					on[s.Host]--
					all--
					return nil
				}
				p.untilIdle()
				p.wantStatus("1", deployment.Finished)
				assert.True(t, most == c.mostOnHost && mostAll == c.most,
					"%d steps were worked on at once, %d of them on one host, not %d and %d", mostAll, most, c.most, c.mostOnHost)
			})
		})
	}
}

// With every slot taken on thousands of hosts, what needs none is done.
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
		close(r.stop)
		results <- nil
		results <- nil
		<-r.ended
		r.kill()
	})
}

// counting counts how often the pipelines are locked.
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
		c := &counting{Log: p.log}
		p.options.Log = c
		p.define(runStage("only"))
		r := p.start()
		p.release("1")
		synctest.Wait()
		wait(300 * time.Millisecond)
		p.wantStatus("1", deployment.Finished)
		before := c.locks
		for i := range 100 {
			_, err := p.log.Append(p.Context(), deploylog.Event{Deployment: fmt.Sprint(i), Target: "resource/db", Name: "resource-started"})
			require.NoError(t, err)
		}
		wait(300 * time.Millisecond)
		assert.True(t, c.locks == before && before <= 7, "it held %d passes, and then %d", before, c.locks-before)
		r.end()
	})
}
