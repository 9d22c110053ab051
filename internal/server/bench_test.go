package server_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
)

// clients is how many ask at once.
const clients = 16

// rate asks again and again, by many clients at once, and reports how often a second.
func rate(b *testing.B, ask func(i int)) {
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 4 * clients
	var n atomic.Int64
	b.SetParallelism(clients)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			ask(int(n.Add(1)))
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

// What is read through the API, against a handler that does nothing but write the same.
func BenchmarkReads(b *testing.B) {
	_, url := newServer(b, inFile(b, 100))
	for name, path := range map[string]string{"Head": "/v1/log", "Events": "/v1/events?last=10", "Latest": "/v1/log/latest?target=pipeline/p1&outcome=succeeded"} {
		_, _, text := ask(b, "GET", url+path, "operator", "")
		plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
		b.Cleanup(plain.Close)
		for of, url := range map[string]string{name: url, name + "Yardstick": plain.URL} {
			b.Run(of, func(b *testing.B) { rate(b, func(int) { expect(b, 200, "", "GET", url+path, "operator", "") }) })
		}
	}
}

// What is recorded through the API, against as many appends of one event each.
func BenchmarkRecords(b *testing.B) {
	const many = 1000
	log := inFile(b, many)
	_, url := newServer(b, log, fresh)
	var n atomic.Int64
	b.Run("Commands", func(b *testing.B) {
		rate(b, func(int) {
			i := n.Add(1)
			expect(b, 200, "", "POST", fmt.Sprintf("%s/v1/pipelines/p%d/commands/%s", url, i%many, []string{"pause", "resume"}[i/many%2]), "operator", "{}")
		})
	})
	for name, lock := range map[string]bool{"Yardstick": false, "YardstickOneByOne": true} {
		b.Run(name, func(b *testing.B) {
			rate(b, func(int) {
				if lock {
					unlock := must.Get(log.Lock(b.Context(), "some"))(b)
					defer unlock()
				}
				event := deploylog.Event{Deployment: fmt.Sprint("d", n.Add(1)), Target: "run/web.yaml", Name: "run-started"}
				require.NoError(b, must.Fail(log.Append(b.Context(), event)))
			})
		})
	}
}

// A thousand who follow the log, and an event now and then: how late it comes to each, against
// a handler that does nothing but pass texts on.
func BenchmarkFollowers(b *testing.B) {
	log := inFile(b, 1)
	_, url := newServer(b, log, fresh)
	b.Run("Feed", func(b *testing.B) {
		reportLate(b, followed(b, url+"/v1/events?follow=true&after=1", func(id string) {
			require.NoError(b, must.Fail(log.Append(b.Context(), deploylog.Event{Deployment: id, Target: "run/web.yaml", Name: "run-started"})))
		}))
	})
	passing := newPassing(b)
	b.Run("Yardstick", func(b *testing.B) {
		reportLate(b, followed(b, passing.url, func(id string) {
			passing.pass(fmt.Sprintf(`{"seq":1,"id":"x","deployment":"%s","target":"run/web.yaml","event":"run-started"}`+"\n", id))
		}))
	})
}

func reportLate(b *testing.B, late []time.Duration) {
	slices.Sort(late)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(late[len(late)/2]), "p50-ms")
	b.ReportMetric(ms(late[len(late)*99/100]), "p99-ms")
	b.ReportMetric(ms(late[len(late)-1]), "max-ms")
}

// followed has a thousand follow at an address, makes events, 50 a second, and returns how late
// each came to each.
func followed(b *testing.B, url string, event func(deployment string)) (late []time.Duration) {
	b.Helper()
	const followers, pause = 1000, 20 * time.Millisecond
	var mu sync.Mutex
	var ready sync.WaitGroup
	ready.Add(followers)
	for range followers {
		go func() {
			lines := follow(b, url)
			ready.Done()
			for line := range lines {
				if _, rest, is := strings.Cut(line, `"deployment":"d`); is {
					digits, _, _ := strings.Cut(rest, `"`)
					ns, _ := strconv.ParseInt(digits, 10, 64)
					mu.Lock()
					late = append(late, time.Duration(time.Now().UnixNano()-ns))
					mu.Unlock()
				}
			}
		}()
	}
	ready.Wait()
	b.ResetTimer()
	n := 0
	for ; b.Loop(); n++ {
		event("d" + strconv.FormatInt(time.Now().UnixNano(), 10))
		<-time.After(pause)
	}
	b.StopTimer()
	waittest.Until(b, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(late) >= n*followers
	}, "each event comes to each")
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(late)
}

// passing passes texts on to all who ask.
type passing struct {
	url string
	mu  sync.Mutex
	to  map[chan string]bool
}

func newPassing(b *testing.B) *passing {
	p := &passing{to: map[chan string]bool{}}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mine := make(chan string, 1000)
		p.mu.Lock()
		p.to[mine] = true
		p.mu.Unlock()
		defer func() {
			p.mu.Lock()
			delete(p.to, mine)
			p.mu.Unlock()
		}()
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case text := <-mine:
				_, _ = io.WriteString(w, text)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	b.Cleanup(h.Close)
	p.url = h.URL + "/"
	return p
}

func (p *passing) pass(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for to := range p.to {
		to <- text
	}
}
