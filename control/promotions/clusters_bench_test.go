package promotions_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/kubewatch/apitest"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// The pipelines of a flotilla, and the clusters of their objects.
const manyPipelines, manyClusters = 1000, 20

// flotilla is very many pipelines of five stages, each an object in one of twenty clusters, and a
// process that promotes.
type flotilla struct {
	*testing.B
	name    string
	servers []*apitest.Server
	process *exec.Cmd
	asked   chan promotions.Request // what its webhooks ask
	over    chan string             // pipelines that have carried a revision through all stages

	mu      sync.Mutex
	written map[string]time.Time // the status by which a stage runs a revision, as PIPELINE/STAGE REVISION
	late    []time.Duration      // from that to the decision to promote it

	rest   float64 // of a core, in percent, while nothing happens
	memory float64 // MiB, then
}

// writes has the object of a stage run a revision.
func (f *flotilla) writes(pipeline, stage int, revision string) {
	status := fmt.Sprintf(`{"metadata": {"generation": 1}, "status": {"observedGeneration": 1, "lastAppliedRevision": %q, "lastAttemptedRevision": %q, "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]}}`, revision, revision)
	f.mu.Lock()
	f.written[fmt.Sprintf("p%d/s%d %s", pipeline, stage, revision)] = time.Now()
	f.mu.Unlock()
	f.servers[(pipeline*stagesEach+stage)%manyClusters].Put(fmt.Sprintf("kustomizations/flux-system/p%d-s%d", pipeline, stage), status)
}

// newFlotilla has the pipelines, all of whose objects run version 0, and a program that promotes.
func newFlotilla(b *testing.B, name, program string, settles bool) *flotilla {
	f := &flotilla{B: b, name: name, asked: make(chan promotions.Request, manyPipelines), over: make(chan string, manyPipelines), written: map[string]time.Time{}}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		var asks promotions.Request
		if err := json.NewDecoder(request.Body).Decode(&asks); err != nil {
			b.Error(err)
		}
		f.asked <- asks
	}))
	b.Cleanup(receiver.Close)
	dir := b.TempDir()
	place(b, dir, "secrets/hook.key", hookKey+"\n")
	var clusters []any
	for i := range manyClusters {
		f.servers = append(f.servers, apitest.New(b))
		clusters = append(clusters, map[string]any{"name": fmt.Sprint("c", i), "kubeconfig": f.servers[i].Kubeconfig(b)})
	}
	inventory, err := json.Marshal(map[string]any{"clusters": clusters})
	require.NoError(b, err)
	place(b, dir, "inventory.yaml", string(inventory))
	log, err := sqlite.Open(b.Context(), filepath.Join(dir, "log.db"), sqlite.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { _ = log.Close() })
	var batch []deploylog.Event
	for i := range manyPipelines {
		d, at := &definition.Definition{Name: fmt.Sprint("p", i), Promotion: single()}, definition.Duration(0)
		for stage := range stagesEach {
			f.writes(i, stage, "0")
			s := definition.Stage{Name: fmt.Sprint("s", stage), Objects: []object.Object{{
				Cluster: fmt.Sprint("c", (i*stagesEach+stage)%manyClusters), Kind: "Kustomization", Namespace: "flux-system", Name: fmt.Sprintf("p%d-s%d", i, stage),
			}}}
			if s.Environment = "objects:" + d.Name + "/" + s.Name; settles {
				s.SettleFor = &at
			}
			if stage > 0 {
				s.Strategy, s.Webhook = definition.WithWebhook, &definition.Webhook{URL: receiver.URL, KeyFile: "secrets/hook.key", Timeout: definition.Duration(30 * time.Minute)}
			}
			d.Stages = append(d.Stages, s)
		}
		events, err := promotion.New(d.Name).Propose(promotion.Define{Definition: d, ID: "define-" + d.Name}, promotion.Observed{}, time.Now())
		require.NoError(b, err)
		batch = append(batch, events...)
	}
	for some := range slices.Chunk(batch, 500) {
		_, err := log.Append(b.Context(), some...)
		require.NoError(b, err)
	}
	go f.follow(b.Context(), log)
	f.process = exec.Command(program, "--log", "log.db", "pipeline", "run")
	f.process.Dir, f.process.SysProcAttr = dir, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	f.process.Stdout, f.process.Stderr = &said, &said
	require.NoError(b, f.process.Start())
	b.Cleanup(func() {
		_ = f.process.Process.Kill()
		_ = f.process.Wait()
		if b.Failed() {
			b.Logf("%s wrote last:\n%s", name, said.Bytes()[max(0, said.Len()-4000):])
		}
	})
	return f
}

// follow notes when each promotion was decided.
func (f *flotilla) follow(ctx context.Context, log deploylog.Log) {
	for e, err := range log.Watch(ctx, deploylog.Filter{}) {
		if err != nil {
			return
		}
		name, _ := promotion.NameOf(e.Target)
		switch e.Name {
		case promotion.StageStarted:
			f.mu.Lock()
			if at, ok := f.written[name+"/"+promotion.PayloadOf(e).From+" "+e.Revision]; ok {
				f.late = append(f.late, e.CreatedAt.Sub(at))
			}
			f.mu.Unlock()
		case promotion.RunFinished:
			f.over <- name
		}
	}
}

// carries has a revision go through all stages of a pipeline.
func (f *flotilla) carries(pipeline int, revision string) {
	f.Helper()
	for stage := range stagesEach {
		f.writes(pipeline, stage, revision)
		if stage < stagesEach-1 {
			asks := <-f.asked
			require.Equal(f, fmt.Sprintf("s%d %s", stage+1, revision), asks.Stage+" "+asks.Revision)
		}
	}
	<-f.over
}

// rests measures what processes need while nothing happens. In two minutes the runtime collects garbage
// once, and clusters say twice that nothing has changed.
func rests(b *testing.B, all []*flotilla) {
	b.Helper()
	const rest, bookmarks = 2 * time.Minute, 2
	<-time.After(3 * time.Second) // what began has ended
	before := map[*flotilla]time.Duration{}
	for _, f := range all {
		before[f] = f.used()
	}
	for range bookmarks {
		<-time.After(rest / bookmarks)
		for _, f := range all {
			for _, s := range f.servers {
				s.Bookmark()
			}
		}
	}
	for _, f := range all {
		f.rest = 100 * float64(f.used()-before[f]) / float64(rest)
		f.memory = f.resident()
	}
}

// used is how much time of the processor the threads of the process have used.
func (f *flotilla) used() (all time.Duration) {
	f.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", f.process.Process.Pid))
	require.NoError(f, err)
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		require.NoError(f, err)
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		require.NoError(f, err)
		all += time.Duration(ns)
	}
	return all
}

// resident is the memory of the process that is of no file, in MiB.
func (f *flotilla) resident() float64 {
	f.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", f.process.Process.Pid))
	require.NoError(f, err)
	_, after, found := strings.Cut(string(text), "RssAnon:")
	require.True(f, found)
	kib, err := strconv.ParseFloat(strings.Fields(after)[0], 64)
	require.NoError(f, err)
	return kib / 1024
}

// The status of an object of one of 1,000 pipelines says that it runs another revision, and that goes
// through the other stages: how late each promotion is decided after the last status was written, and what
// the process needs at rest. DEPLOYSTER_BEFORE is a program of an older revision, which does the same in turn.
func BenchmarkClustersDecide(b *testing.B) {
	program, err := filepath.Abs(cmp.Or(os.Getenv("DEPLOYSTER_PROGRAM"), "../../bin/deployster"))
	require.NoError(b, err)
	all := []*flotilla{newFlotilla(b, "now", program, true)}
	if older := os.Getenv("DEPLOYSTER_BEFORE"); older != "" {
		all = append(all, newFlotilla(b, "before", older, false))
	}
	for _, f := range all {
		for range manyPipelines { // what they run already is current
			<-f.over
		}
	}
	rests(b, all)
	n := 0
	for ; b.Loop(); n++ {
		for _, f := range all {
			f.carries(n*7919%manyPipelines, fmt.Sprint("v", n))
		}
	}
	b.StopTimer()
	var late []time.Duration
	for _, f := range all {
		f.mu.Lock()
		late = append(late, lateness(b, f.name, f.late))
		f.mu.Unlock()
		b.ReportMetric(f.rest, f.name+"-rest-%")
		b.ReportMetric(f.memory, f.name+"-MiB")
	}
	if len(all) > 1 {
		b.ReportMetric(late[0].Seconds()/late[1].Seconds(), "ratio-p99")
		b.ReportMetric(all[0].rest/all[1].rest, "ratio-rest")
		b.ReportMetric(all[0].memory/all[1].memory, "ratio-MiB")
	}
}
