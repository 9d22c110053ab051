package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/internal/server"
	"github.com/deployster-go/deployster/pipeline"
)

var load = flag.Duration("load", 2*time.Second, "for how long many clients ask a server at once")

// inFile is a log as people have it, with so many pipelines, p0 and so on.
func inFile(tb testing.TB, many int) deploylog.Log {
	tb.Helper()
	log, err := sqlite.Open(context.Background(), filepath.Join(tb.TempDir(), "log.db"), sqlite.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = log.Close() })
	all := pipelines.New(log, time.Now)
	for i := range many {
		d := querytest.Definition()
		d.Name = fmt.Sprint("p", i)
		if _, err := all.Command(context.Background(), d.Name, pipeline.Define{Definition: d, ID: fmt.Sprint("define", i)}); err != nil {
			tb.Fatal(err)
		}
	}
	return log
}

// fresh has each command begin with an id of its own.
func fresh(o *server.Options) { o.NewID = func() string { return ulid.Make().String() } }

// crowd is clients of a server.
type crowd struct {
	testing.TB
	url  string
	http *http.Client

	done     context.Context //nolint:containedctx // it ends what has no end of its own
	recorded atomic.Int64    // the newest event of which a client was told
	asked    atomic.Int64
}

func newCrowd(done context.Context, tb testing.TB, url string, clients int) *crowd {
	m := &crowd{TB: tb, url: url, http: &http.Client{Transport: &http.Transport{MaxIdleConns: clients, MaxIdleConnsPerHost: clients}}, done: done}
	tb.Cleanup(m.http.CloseIdleConnections)
	return m
}

// ask asks for something, and returns the answer, which must be good.
func (m *crowd) ask(ctx context.Context, method, path string, body []byte, header ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, m.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer operator")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := m.http.Do(r)
	if err == nil && answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		return nil, fmt.Errorf("%s %s: %d %s", method, path, answer.StatusCode, text)
	}
	m.asked.Add(1)
	return answer, err
}

// read asks for a document.
func (m *crowd) read(method, path string, body []byte) (text []byte, err error) {
	answer, err := m.ask(context.Background(), method, path, body)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return io.ReadAll(answer.Body)
}

// records pauses and resumes a pipeline, again and again.
func (m *crowd) records(pipeline int) {
	for i := 0; m.done.Err() == nil; i++ {
		text, err := m.read(http.MethodPost, fmt.Sprintf("/v1/pipelines/p%d/commands/%s", pipeline, []string{"pause", "resume"}[i%2]), []byte(`{}`))
		var said struct {
			Events []deploylog.Event `json:"events"`
		}
		if err == nil {
			err = json.Unmarshal(text, &said)
		}
		if err != nil || len(said.Events) == 0 {
			m.Errorf("%v: %s", err, text)
			return
		}
		newest := said.Events[len(said.Events)-1].Seq
		for known := m.recorded.Load(); newest > known && !m.recorded.CompareAndSwap(known, newest); {
			known = m.recorded.Load()
		}
	}
}

// reads asks for this and that.
func (m *crowd) reads() {
	for m.done.Err() == nil {
		path := []string{"/v1/log", "/v1/events?last=20", "/v1/log/latest?target=stage/p1/beta&outcome=succeeded", "/v1/events?target=pipeline/p1&last=3"}[rand.IntN(4)]
		if _, err := m.read(http.MethodGet, path, nil); err != nil {
			m.Error(err)
			return
		}
	}
}

// follows follows the log until all clients are done and it has got all that was recorded.
// One that leaves does so now and then, and comes back with the number of the last event.
func (m *crowd) follows(leaves bool) {
	after := int64(0)
	over := func() bool { return m.done.Err() != nil && after >= m.recorded.Load() }
	for !over() {
		ctx, leave := context.WithCancel(context.Background())
		// It must not wait for an event that never comes.
		stop := context.AfterFunc(m.done, func() { time.AfterFunc(time.Second, leave) })
		answer, err := m.ask(ctx, http.MethodGet, "/v1/events", nil, "Accept", "text/event-stream", "Last-Event-ID", strconv.FormatInt(after, 10))
		if err != nil {
			if ctx.Err() == nil {
				m.Error(err)
				leave()
				return
			}
			continue
		}
		until := after + 1<<40
		if leaves {
			until = after + 1 + rand.Int64N(500)
		}
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 1<<20)
		for after < until && !over() && lines.Scan() {
			id, is := strings.CutPrefix(lines.Text(), "id: ")
			if !is {
				continue
			}
			if after++; id != strconv.FormatInt(after, 10) {
				m.Errorf("event %s comes after event %d", id, after-1)
				leave()
				return
			}
		}
		stop()
		leave()
		_ = answer.Body.Close()
	}
}

// Two hundred clients at once: half of them follow the log, of which half leave and come back,
// and the others read and record. Each who follows gets each event once and in order, and the
// memory stays what it is. A minute of it: go test -load 1m -run TestManyClients ./internal/server
func TestManyClientsLoseNothingAndCostNoMemory(t *testing.T) {
	const following, reading, recording = 100, 60, 40
	_, url := newServer(t, inFile(t, recording), fresh)
	done, end := context.WithCancel(context.Background())
	defer end()
	m := newCrowd(done, t, url, following+reading+recording)
	var clients sync.WaitGroup
	for i := range following {
		clients.Go(func() { m.follows(i%2 == 0) })
	}
	for range reading {
		clients.Go(m.reads)
	}
	for i := range recording {
		clients.Go(func() { m.records(i) })
	}
	<-time.After(*load / 3)
	for deadline := time.Now().Add(time.Minute); m.asked.Load() < 2*(following+reading+recording); { // before that their connections are what grows
		if time.Now().After(deadline) {
			t.Fatalf("after a minute %d requests are answered", m.asked.Load())
		}
		<-time.After(10 * time.Millisecond)
	}
	early, events := heap(), m.recorded.Load()
	<-time.After(*load - *load/3)
	late := heap()
	end()
	clients.Wait()
	t.Logf("%d requests and %d events; the heap grew from %d to %d KiB with %d events", m.asked.Load(), m.recorded.Load(), early>>10, late>>10, m.recorded.Load()-events)
	if most := int64(16 << 20); late-early > most {
		t.Errorf("the heap grew from %d to %d MiB", early>>20, late>>20)
	}
	if m.recorded.Load() < 2*recording {
		t.Errorf("no more than %d events were recorded", m.recorded.Load())
	}
}
