package promotions_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// crowd is very many pipelines of five environments each, whose tasks are always well.
type crowd struct {
	*world
	over chan string // pipelines that have carried a revision through all stages

	mu       sync.Mutex
	finished map[deploylog.Target]time.Time // when an environment was observed to run something
	late     []time.Duration                // from that to the decision to promote it
}

const stagesEach = 5

// Recorded implements reconcile.Observer.
func (c *crowd) Recorded(e deploylog.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e.Name {
	case record.EnvironmentFinished:
		c.finished[e.Target] = e.CreatedAt
	case promotion.StageStarted:
		from := promotion.PayloadOf(e).Environment
		var pipeline, stage int
		_, _ = fmt.Sscanf(from, "p%d-s%d", &pipeline, &stage)
		if at, ok := c.finished[record.Target(nameOf(pipeline, stage-1))]; ok {
			c.late = append(c.late, e.CreatedAt.Sub(at))
		}
	case promotion.RunFinished:
		c.over <- string(e.Target)
	}
}

func nameOf(pipeline, stage int) string { return fmt.Sprintf("p%d-s%d", pipeline, stage) }

// newCrowd has so many pipelines, all of whose environments run version 0.
func newCrowd(b *testing.B, many int) *crowd {
	c := &crowd{world: newWorld(b, reconciletest.InFile(b)), over: make(chan string, many), finished: map[deploylog.Target]time.Time{}}
	var batch []deploylog.Event
	now, seq := time.Now(), int64(len(c.events()))
	for i := range many {
		d := &definition.Definition{Name: fmt.Sprint("p", i), Promotion: single()}
		for stage := range stagesEach {
			name := nameOf(i, stage)
			d.Stages = append(d.Stages, definition.Stage{Name: fmt.Sprint("s", stage), Environment: name})
			state := environment.New(name)
			do := func(events []deploylog.Event, err error) {
				require.NoError(b, err)
				for _, e := range events {
					seq++
					e.Seq, e.CreatedAt = seq, now.UTC()
					state.Apply(e)
					batch = append(batch, e)
				}
			}
			do(state.Propose(environment.Create{Definition: runs(name, "0")}, now))
			do(state.Propose(environment.Deploy{Revision: 1, Hosts: hostsOf(name)}, now))
			for !state.Idle() {
				for s := range state.Decide(now, environment.Can{Disrupt: true}) {
					do(s.Events, nil)
					if s.Kind != tasks.Record {
						do(state.Completed(s, tasks.ProbeResult{Health: tasks.Healthy}, nil), nil)
					}
				}
			}
		}
		events, err := promotion.New(d.Name).Propose(promotion.Define{Definition: d, ID: "define-" + d.Name}, promotion.Observed{}, now)
		require.NoError(b, err)
		batch = append(batch, events...)
		seq += int64(len(events))
	}
	for some := range slices.Chunk(batch, 5000) {
		_, err := c.log.Append(context.Background(), some...)
		require.NoError(b, err)
	}
	return c
}

// Another process deploys to the first environment of one of 1,000 pipelines, and the revision
// goes through the others: how late each promotion is decided after its environment is observed
// to run it. The yardstick is how late a plain watch of the log notices an append.
func BenchmarkPromotionDecides(b *testing.B) {
	const many = 1000
	c := newCrowd(b, many)
	yardstick := c.noticed(b)
	o := c.options(c.open())
	o.Observer = c
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- promotions.Schedule(ctx, o, c.world, c.world) }()
	for range many { // what they run already is current
		<-c.over
	}
	c.mu.Lock()
	c.late = nil
	c.mu.Unlock()
	n := 0
	for ; b.Loop(); n++ {
		c.deploys(nameOf(n*7919%many, 0), fmt.Sprint("v", n))
		<-c.over
	}
	b.StopTimer()
	cancel()
	<-ended
	assert.GreaterOrEqual(b, len(c.late), n*(stagesEach-1))
	if late := lateness(b, "decision", c.late); n >= 100 && late > mostLate {
		b.Errorf("one of a hundred promotions is decided more than %s late", late)
	}
	lateness(b, "yardstick", yardstick)
}

// mostLate is how late one of a hundred promotions may be decided.
const mostLate = 100 * time.Millisecond

// noticed is how late a watch of another handle of the log yields what is appended.
func (c *crowd) noticed(b *testing.B) (late []time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	seen := make(chan time.Time)
	after := int64(len(c.events()))
	go func() {
		for _, err := range c.open().Watch(ctx, deploylog.Filter{After: after}) {
			if err != nil {
				return
			}
			seen <- time.Now()
		}
	}()
	for i := range 100 {
		e, err := c.log.Append(ctx, deploylog.Event{Deployment: fmt.Sprint("y", i), Target: "run/yardstick", Name: "run-started"})
		require.NoError(b, err)
		late = append(late, (<-seen).Sub(e[0].CreatedAt))
	}
	return late
}

// lateness reports how late half of some things are, and all but one of a hundred, which it returns.
func lateness(b *testing.B, what string, late []time.Duration) (most time.Duration) {
	slices.Sort(late)
	most = late[len(late)*99/100]
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(late[len(late)/2]), what+"-p50-ms")
	b.ReportMetric(ms(most), what+"-p99-ms")
	return most
}
