package promotions_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/kubewatch"
	"github.com/deployster-go/deployster/internal/kubewatch/apitest"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// flotilla is very many pipelines of five stages, each an object in one of twenty clusters.
type flotilla struct {
	*world
	servers []*apitest.Server
	begun   chan string // promotions, as PIPELINE/STAGE REVISION
	over    chan string // pipelines that have carried a revision through all stages

	mu      sync.Mutex
	written map[string]time.Time // the status by which a stage runs a revision, likewise
	late    []time.Duration      // from that to the decision to promote it
}

// Recorded implements reconcile.Observer.
func (f *flotilla) Recorded(e deploylog.Event) {
	name, _ := promotion.NameOf(e.Target)
	switch e.Name {
	case promotion.StageStarted:
		f.mu.Lock()
		if at, ok := f.written[name+"/"+promotion.PayloadOf(e).From+" "+e.Revision]; ok {
			f.late = append(f.late, e.CreatedAt.Sub(at))
		}
		f.mu.Unlock()
		f.begun <- name
	case promotion.RunFinished:
		f.over <- name
	}
}

// cluster is the cluster of a stage of a pipeline.
func (f *flotilla) cluster(pipeline, stage int) int {
	return (pipeline*stagesEach + stage) % len(f.servers)
}

// writes has the object of a stage run a revision.
func (f *flotilla) writes(pipeline, stage int, revision string) {
	status := fmt.Sprintf(`{"metadata": {"generation": 1}, "status": {"observedGeneration": 1, "lastAppliedRevision": %q, "lastAttemptedRevision": %q, "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]}}`, revision, revision)
	f.mu.Lock()
	f.written[fmt.Sprintf("p%d/s%d %s", pipeline, stage, revision)] = time.Now()
	f.mu.Unlock()
	f.servers[f.cluster(pipeline, stage)].Put(fmt.Sprintf("kustomizations/flux-system/p%d-s%d", pipeline, stage), status)
}

// newFlotilla has so many pipelines, all of whose objects run version 0.
func newFlotilla(b *testing.B, many, clusters int) *flotilla {
	r := newReceiver(b)
	f := &flotilla{world: newWorld(b, reconciletest.InFile(b)), begun: make(chan string, many), over: make(chan string, many), written: map[string]time.Time{}}
	f.workspace = r.workspace
	access := map[string]kubewatch.Access{}
	for i := range clusters {
		f.servers = append(f.servers, apitest.New(b))
		access[fmt.Sprint("c", i)] = kubewatch.Access{Kubeconfig: f.servers[i].Kubeconfig(b)}
	}
	f.clusters = kubewatch.New(kubewatch.Options{Find: func(name string) (kubewatch.Access, error) { return access[name], nil }})
	var batch []deploylog.Event
	for i := range many {
		d, at := &definition.Definition{Name: fmt.Sprint("p", i), Promotion: single()}, definition.Duration(0)
		for stage := range stagesEach {
			f.writes(i, stage, "0")
			name := fmt.Sprint("s", stage)
			d.Stages = append(d.Stages, definition.Stage{
				Name: name, Environment: "objects:" + d.Name + "/" + name, SettleFor: &at,
				Objects: []object.Object{{Cluster: fmt.Sprint("c", f.cluster(i, stage)), Kind: "Kustomization", Namespace: "flux-system", Name: fmt.Sprintf("p%d-s%d", i, stage)}},
			})
		}
		r.asks(d)
		events, err := promotion.New(d.Name).Propose(promotion.Define{Definition: d, ID: "define-" + d.Name}, promotion.Observed{}, time.Now())
		require.NoError(b, err)
		batch = append(batch, events...)
	}
	for some := range slices.Chunk(batch, 500) {
		_, err := f.log.Append(context.Background(), some...)
		require.NoError(b, err)
	}
	return f
}

// used is how much time of the processor this process has used.
func used(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The status of an object of one of 1,000 pipelines says that it runs another revision, and that goes
// through the other stages: how late each promotion is decided after the last status was written. The
// clusters are in the same process, and count in what it needs at rest.
func BenchmarkClustersDecide(b *testing.B) {
	const many, clusters, rest = 1000, 20, 10 * time.Second
	f := newFlotilla(b, many, clusters)
	o := f.options(f.open())
	o.Observer = f
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- promotions.Schedule(ctx, o, f.world, f.world) }()
	for range many { // what they run already is current
		<-f.over
	}
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	before := used(b)
	<-time.After(rest)
	atRest := used(b) - before
	n := 0
	for ; b.Loop(); n++ {
		pipeline, revision := n*7919%many, fmt.Sprint("v", n)
		for stage := range stagesEach {
			f.writes(pipeline, stage, revision)
			if stage < stagesEach-1 {
				<-f.begun
			}
		}
		<-f.over
	}
	b.StopTimer()
	cancel()
	<-ended
	lateness(b, "decision", f.late)
	b.ReportMetric(100*float64(atRest)/float64(rest), "rest-%-of-a-core")
	b.ReportMetric(float64(memory.HeapInuse+memory.StackInuse)/(1<<20), "MiB")
}
