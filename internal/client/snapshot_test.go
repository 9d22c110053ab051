package client_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/snapshotfile"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/client"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// longLog is a log of so many events at least: a pipeline and an environment with hundreds of
// hosts, runs besides, and a pipeline that promotes.
func longLog(tb testing.TB, hosts, events int) *sqlite.Log {
	log := must.Get(sqlite.Open(context.Background(), filepath.Join(tb.TempDir(), "log.db"), sqlite.Options{}))(tb)
	tb.Cleanup(func() { _ = log.Close() })
	all := querytest.Large(hosts, 14)
	for i := range all {
		all[i].Seq, all[i].ID = 0, ""
	}
	for i := len(all); i < events; i++ {
		all = append(all, deploylog.Event{Deployment: fmt.Sprint("run", i), Target: "run/web.yaml", Name: "run-started", CreatedAt: querytest.Noon.Add(time.Hour)})
	}
	for len(all) > 0 {
		n := min(len(all), 5000)
		require.NoError(tb, errOf(log.Append(tb.Context(), all[:n]...)))
		all = all[n:]
	}
	d, err := definition.Parse("promote.yaml", []byte("pipeline: promotes\npromotion: {policy: single}\nstages:\n  - name: test\n    environment: shop/prod\n  - name: prod\n    environment: shop/next\n"))
	require.NoError(tb, err)
	p := promotions.New(log, time.Now)
	_, err = p.Change(tb.Context(), "promotes", true, func(s *promotion.State) ([]deploylog.Event, error) {
		return s.Propose(promotion.Define{Definition: d, ID: "defined"}, promotion.Observed{}, time.Now())
	})
	require.NoError(tb, err)
	return log
}

// answers is what the commands that list and report fold, and what they say.
type answers struct {
	pipelines    []query.PipelineRow
	environments []query.EnvironmentRow
	groups       int
	promotes     []string
	heads        []int64
}

// asked folds a log as the commands do.
func asked(tb testing.TB, log deploylog.Log) (a answers) {
	p, e, b, l := query.NewPipelines(log, time.Now), query.NewEnvironments(log, time.Now), query.NewBuilds(log, time.Now), promotions.NewReader(log, time.Now)
	for _, follow := range []func(context.Context, int64) error{p.Follow, e.Follow, b.Follow, l.Follow} {
		require.NoError(tb, follow(tb.Context(), 0))
	}
	a.pipelines, _ = p.List()
	a.environments, a.groups, a.promotes = e.List(""), len(b.Groups()), l.Present()
	a.heads = []int64{p.Head(), e.Head(), b.Head(), l.Head()}
	return a
}

// counted is a log through a server, with how many events were read of it.
type counted struct {
	*client.Log
	read *atomic.Int64
}

func (c counted) Read(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		for e, err := range c.Log.Read(ctx, f) {
			c.read.Add(1)
			if !yield(e, err) {
				return
			}
		}
	}
}

// Who reads a long log through a server is not sent all of it, and is told the same.
func TestALongLogIsNotReadWholeThroughAServer(t *testing.T) {
	log := longLog(t, 4, 6000)
	through := counted{open(t, serve(t, log, objects.Store{})), &atomic.Int64{}}
	got, want := asked(t, through), asked(t, struct{ deploylog.Log }{log})
	if !reflect.DeepEqual(got, want) || len(want.pipelines) == 0 || len(want.environments) == 0 || len(want.promotes) != 1 {
		t.Errorf("through the server\n%+v\nbeside the log\n%+v", got, want)
	}
	assert.Zero(t, through.read.Load(), "events that are read though snapshots have them")
	require.NoError(t, errOf(log.Append(t.Context(), deploylog.Event{Deployment: "later", Target: "run/web.yaml", Name: "run-started"})))
	assert.Equal(t, want.heads[0]+1, asked(t, through).heads[0])
	assert.EqualValues(t, 4, through.read.Load(), "events that are read after one more, by four readers")
	assert.Error(t, through.KeepSnapshot(t.Context(), "pipelines", deploylog.Snapshot{}), "a client has put a snapshot beside the log")
}

// hostile passes on what a server answers but for its snapshots.
func hostile(t *testing.T, behind string, snapshot func(w http.ResponseWriter, answer *http.Response, text []byte)) string {
	t.Helper()
	to := must.Get(url.Parse(behind))(t)
	proxy := httputil.NewSingleHostReverseProxy(to)
	s := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !bytes.HasPrefix([]byte(r.URL.Path), []byte("/v1/log/snapshots/")) {
			proxy.ServeHTTP(w, r)
			return
		}
		answer, err := http.Get(behind + r.URL.String())
		if err != nil {
			t.Error(err)
			return
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		assert.NoError(t, err)
		snapshot(w, answer, text)
	}))
	return s.URL
}

// A snapshot that is damaged, cut off, of another log, or no snapshot is not begun with: the
// log is read.
func TestASnapshotThatIsOfNoUseCostsTimeAlone(t *testing.T) {
	log := longLog(t, 4, 5000)
	url := serve(t, log, objects.Store{})
	want := asked(t, struct{ deploylog.Log }{log})
	for name, snapshot := range map[string]func(w http.ResponseWriter, answer *http.Response, text []byte){
		"damaged": func(w http.ResponseWriter, _ *http.Response, text []byte) {
			text[len(text)/2] ^= 1
			_, _ = w.Write(text)
		},
		"cut off": func(w http.ResponseWriter, answer *http.Response, text []byte) {
			w.Header().Set("Content-Length", answer.Header.Get("Content-Length"))
			_, _ = w.Write(text[:len(text)/2])
		},
		"of another log": func(w http.ResponseWriter, _ *http.Response, text []byte) {
			_, s, ok := snapshotfile.Decode(text)
			other, err := snapshotfile.Encode(snapshotfile.Origin{Log: "another"}, s)
			assert.True(t, ok && err == nil, "%v %v", ok, err)
			_, _ = w.Write(other)
		},
		"a page":       func(w http.ResponseWriter, _ *http.Response, _ []byte) { _, _ = io.WriteString(w, "<html>") },
		"an error":     func(w http.ResponseWriter, _ *http.Response, _ []byte) { http.Error(w, "no", 500) },
		"an old one's": func(w http.ResponseWriter, _ *http.Response, _ []byte) { http.NotFound(w, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			through := counted{open(t, hostile(t, url, snapshot)), &atomic.Int64{}}
			assert.Equal(t, want, asked(t, through))
			assert.GreaterOrEqual(t, through.read.Load(), int64(4*5000), "events that are read without a snapshot")
		})
	}
}

// What comes slowly is received, however long it takes; what does not come is not waited for.
func TestWhatMakesProgressIsNotCutOff(t *testing.T) {
	const idle = 5 * time.Second
	content, stalls := bytes.Repeat([]byte("x"), 14), make(chan struct{})
	defer close(stalls)
	s := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := range content {
			if i > 3 && r.URL.Path == "/v1/objects/stalls" {
				select {
				case <-stalls:
				case <-r.Context().Done():
				}
				return
			}
			_, _ = w.Write(content[i : i+1])
			_ = http.NewResponseController(w).Flush()
			<-time.After(idle / 12) // as a slow network does
		}
	}))
	c := must.Get(client.New(client.Options{Server: s.URL, Idle: idle}))(t)
	var stalled sync.WaitGroup
	stalled.Go(func() { assert.ErrorContains(t, errOf(c.Objects().Load("stalls")), "nothing has been sent for 5s") })
	got, err := c.Objects().Load("slow") // which takes longer as a whole
	assert.NoError(t, err)
	assert.Equal(t, content, got)
	stalled.Wait()
}

// What a command pays that lists or reports through a server: the log read whole, the snapshots
// of the server, and beside the log.
func BenchmarkLongLogThroughAServer(b *testing.B) {
	log := longLog(b, 20, 100_000)
	remote := open(b, serve(b, log, objects.Store{}))
	asked(b, log) // which keeps the snapshots
	asked(b, remote)
	var whole, through, beside time.Duration
	timed := func(of *time.Duration, log deploylog.Log) {
		begun := time.Now()
		asked(b, log)
		*of += time.Since(begun)
	}
	for b.Loop() {
		timed(&whole, struct{ deploylog.Log }{remote})
		timed(&through, remote)
		timed(&beside, log)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(whole.Seconds()*1000/float64(b.N), "whole-ms")
	b.ReportMetric(through.Seconds()*1000/float64(b.N), "server-ms")
	b.ReportMetric(beside.Seconds()*1000/float64(b.N), "local-ms")
	b.ReportMetric(through.Seconds()/beside.Seconds(), "ratio")
}
