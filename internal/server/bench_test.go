package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// clients is how many ask at once.
const clients = 16

// rate asks again and again, by many clients at once, and reports how often a second.
func rate(b *testing.B, ask func(i int) error) {
	b.Helper()
	var n atomic.Int64
	b.SetParallelism(clients)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := ask(int(n.Add(1))); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

// What is read through the API, against a handler that does nothing but write the same.
func BenchmarkReads(b *testing.B) {
	_, url := newServer(b, inFile(b, 100))
	m := newCrowd(context.Background(), b, url, 4*clients)
	for name, path := range map[string]string{"Head": "/v1/log", "Events": "/v1/events?last=10", "Latest": "/v1/log/latest?target=pipeline/p1&outcome=succeeded"} {
		b.Run(name, func(b *testing.B) {
			rate(b, func(int) error {
				_, err := m.read(http.MethodGet, path, nil)
				return err
			})
		})
		text, err := m.read(http.MethodGet, path, nil)
		if err != nil {
			b.Fatal(err)
		}
		plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }))
		b.Cleanup(plain.Close)
		p := newCrowd(context.Background(), b, plain.URL, 4*clients)
		b.Run(name+"Yardstick", func(b *testing.B) {
			rate(b, func(int) error {
				_, err := p.read(http.MethodGet, path, nil)
				return err
			})
		})
	}
}

// What is recorded through the API, against as many appends of one event each.
func BenchmarkRecords(b *testing.B) {
	const many = 1000
	log := inFile(b, many)
	_, url := newServer(b, log, fresh)
	m := newCrowd(context.Background(), b, url, 4*clients)
	var n atomic.Int64
	b.Run("Commands", func(b *testing.B) {
		rate(b, func(int) error {
			i := n.Add(1)
			_, err := m.read(http.MethodPost, fmt.Sprintf("/v1/pipelines/p%d/commands/%s", i%many, []string{"pause", "resume"}[i/many%2]), []byte(`{}`))
			return err
		})
	})
	plain := func(lock bool) func(b *testing.B) {
		return func(b *testing.B) {
			rate(b, func(int) error {
				if lock {
					unlock, err := log.Lock(context.Background(), "some")
					if err != nil {
						return err
					}
					defer unlock()
				}
				_, err := log.Append(context.Background(), deploylog.Event{Deployment: fmt.Sprint("d", n.Add(1)), Target: "run/web.yaml", Name: "run-started"})
				return err
			})
		}
	}
	b.Run("Yardstick", plain(false))
	b.Run("YardstickOneByOne", plain(true))
}

// A thousand who follow the log, and an event now and then: how late it comes to each, against
// a handler that does nothing but pass texts on.
func BenchmarkFollowers(b *testing.B) {
	log := inFile(b, 1)
	_, url := newServer(b, log, fresh)
	b.Run("Feed", func(b *testing.B) {
		late := followed(b, url+"/v1/events?follow=true&after=1", func(i int) string {
			id := "d" + strconv.FormatInt(time.Now().UnixNano(), 10)
			if _, err := log.Append(context.Background(), deploylog.Event{Deployment: id, Target: "run/web.yaml", Name: "run-started"}); err != nil {
				b.Fatal(err)
			}
			return id
		})
		reportLate(b, late)
	})
	passing := newPassing(b)
	b.Run("Yardstick", func(b *testing.B) {
		reportLate(b, followed(b, passing.url, func(int) string {
			id := "d" + strconv.FormatInt(time.Now().UnixNano(), 10)
			passing.pass(fmt.Sprintf(`{"seq":1,"id":"x","deployment":"%s","target":"run/web.yaml","event":"run-started"}`+"\n", id))
			return id
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
func followed(b *testing.B, url string, event func(i int) (deployment string)) (late []time.Duration) {
	b.Helper()
	const followers, pause = 1000, 20 * time.Millisecond
	var mu sync.Mutex
	var ready, over sync.WaitGroup
	var seen atomic.Int64
	ready.Add(followers)
	ctx, end := context.WithCancel(context.Background())
	at := strings.TrimPrefix(url, "http://")
	host, path, _ := strings.Cut(at, "/")
	for range followers {
		over.Go(func() {
			conn, err := net.Dial("tcp", host)
			if err != nil {
				b.Error(err)
				ready.Done()
				return
			}
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			fmt.Fprintf(conn, "GET /%s HTTP/1.1\r\nHost: deploy\r\nAuthorization: Bearer viewer\r\n\r\n", path)
			answer, err := http.ReadResponse(bufio.NewReaderSize(conn, 4<<10), nil)
			ready.Done()
			if err != nil {
				b.Error(err)
				return
			}
			defer answer.Body.Close()
			var mine []time.Duration
			for lines := bufio.NewReader(answer.Body); ; {
				line, err := lines.ReadSlice('\n')
				if err != nil {
					break
				}
				_, rest, is := bytes.Cut(line, []byte(`"deployment":"d`))
				if is {
					digits, _, _ := bytes.Cut(rest, []byte(`"`))
					ns, _ := strconv.ParseInt(string(digits), 10, 64)
					mine = append(mine, time.Duration(time.Now().UnixNano()-ns))
					seen.Add(1)
				}
			}
			mu.Lock()
			late = append(late, mine...)
			mu.Unlock()
		})
	}
	ready.Wait()
	b.ResetTimer()
	n := 0
	for ; b.Loop(); n++ {
		event(n)
		<-time.After(pause)
	}
	b.StopTimer()
	for until := time.Now().Add(time.Minute); seen.Load() < int64(n*followers) && time.Now().Before(until); {
		<-time.After(10 * time.Millisecond)
	}
	if seen.Load() != int64(n*followers) {
		b.Errorf("%d came, and %d were to", seen.Load(), n*followers)
	}
	end()
	over.Wait()
	return late
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
