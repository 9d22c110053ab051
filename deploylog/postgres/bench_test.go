package postgres_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deployster-go/deployster/deploylog"
)

// An event is appended, against a row that is inserted by whoever needs nothing else.
func BenchmarkAppendAgainstAnInsert(b *testing.B) {
	l := open(b, server.URL("bench"))
	c, err := pgx.Connect(b.Context(), strings.Replace(server.URL("bench"), "schema=", "search_path=", 1))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(b.Context())
	if _, err := c.Exec(b.Context(), "CREATE TABLE plain (id bigint PRIMARY KEY, target text, data text)"); err != nil {
		b.Fatal(err)
	}
	var ours, plain float64
	n := 0
	for b.Loop() {
		n++
		ours += seconds(func() { _, err = l.Append(b.Context(), event(fmt.Sprint(n), "a")) })
		if err != nil {
			b.Fatal(err)
		}
		plain += seconds(func() { _, err = c.Exec(b.Context(), "INSERT INTO plain VALUES ($1, $2, $3)", n, "host/a", "{}") })
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(ours/plain, "×insert")
	b.ReportMetric(ours/float64(n)*1e3, "ms/append")
}

// BenchmarkWriters is of many callers at once.
func BenchmarkWriters(b *testing.B) {
	const writers = 64
	l := open(b, server.URL("writers"))
	var next atomic.Int64
	took := seconds(func() {
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				for {
					n := next.Add(1)
					if n > int64(b.N) {
						return
					}
					events := make([]deploylog.Event, 10)
					for i := range events {
						events[i] = event(fmt.Sprintf("%d-%d", b.N, n), fmt.Sprint(i))
					}
					if _, err := l.Append(b.Context(), events...); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	})
	b.ReportMetric(float64(10*b.N)/took, "events/s")
}

func seconds(do func()) float64 {
	begun := time.Now()
	do()
	return time.Since(begun).Seconds()
}
