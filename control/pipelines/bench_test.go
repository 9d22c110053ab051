package pipelines_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/step"
)

// idler does no work, watches nothing, and knows no other hosts than one group.
type idler struct{ hosts []string }

func (i *idler) Work(context.Context, step.Step, map[string]string, func() error) (map[string]string, error) {
	return nil, nil
}

func (i *idler) Members(*definition.Definition) (map[string][]string, error) {
	return map[string][]string{"g": i.hosts}, nil
}
func (*idler) Settle(context.Context, step.Work) error { return nil }
func (*idler) Slots(string) int                        { return 1 }
func (*idler) Identity() string                        { return "" }
func (*idler) Recorded(deploylog.Event)                {}
func (*idler) Began(step.Step)                         {}
func (*idler) Again(step.Step, error, time.Duration)   {}
func (*idler) Notice(string)                           {}

func newBench(b *testing.B, hosts int) (*plant, *idler) {
	p := newPlant(b, reconciletest.InFile(b))
	i := &idler{}
	for h := range hosts {
		i.hosts = append(i.hosts, fmt.Sprintf("worker%06d", h))
	}
	p.options.Worker, p.options.Hosts, p.options.Observer = i, i, i
	p.define(deployTo("all", "g", steps("host-artifact-replicated", "host-deployed", "host-restarted", "host-tested", "host-announced")))
	p.do(pipeline.SetMembers{Members: map[string][]string{"g": i.hosts}, ID: p.id()})
	return p, i
}

// Every step is durable before the next one of its host begins. A step is one
// whose work a worker does; the markers come on top.
func BenchmarkDurableSteps(b *testing.B) {
	for _, hosts := range []int{1_000, 10_000} {
		for _, parallelism := range []int{10, 100, 1_000} {
			b.Run(fmt.Sprintf("hosts=%d/parallelism=%d", hosts, parallelism), func(b *testing.B) {
				p, _ := newBench(b, hosts)
				p.options.Parallelism = parallelism
				steps := 0
				for i := 0; b.Loop(); i++ {
					p.release(fmt.Sprint("r", i))
					p.untilIdle()
					steps += 5 * hosts
				}
				b.StopTimer()
				p.wantStatus("r0", deployment.Finished)
				b.ReportMetric(float64(steps)/b.Elapsed().Seconds(), "steps/s")
				b.ReportMetric(float64(steps+2*hosts*b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}
