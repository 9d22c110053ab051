package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
)

// An event is appended, against a row that is inserted by whoever needs nothing else.
func BenchmarkAppendAgainstAnInsert(b *testing.B) {
	l := open(b, server.URL("bench"))
	c, err := pgx.Connect(b.Context(), strings.Replace(server.URL("bench"), "schema=", "search_path=", 1))
	require.NoError(b, err)
	defer c.Close(b.Context())
	require.NoError(b, errOf(c.Exec(b.Context(), "CREATE TABLE plain (id bigint PRIMARY KEY, target text, data text)")))
	var ours, plain []float64
	for n := 0; b.Loop(); n++ {
		ours = append(ours, seconds(func() { _, err = l.Append(b.Context(), event(fmt.Sprint(n), "a")) }))
		require.NoError(b, err)
		plain = append(plain, seconds(func() { _, err = c.Exec(b.Context(), "INSERT INTO plain VALUES ($1, $2, $3)", n, "host/a", "{}") }))
		require.NoError(b, err)
	}
	b.ReportMetric(median(ours)/median(plain), "×insert")
	b.ReportMetric(median(ours)*1e3, "ms/append")
}

// median is that of figures which others who use the machine disturb.
func median(all []float64) float64 { slices.Sort(all); return all[len(all)/2] }

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
					if !assert.NoError(b, errOf(l.Append(b.Context(), hosts(fmt.Sprintf("%d-%d", b.N, n), 10)...))) {
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

// All events are read, as whoever folds them does, against a query for the same rows.
func BenchmarkReadAgainstASelect(b *testing.B) {
	const events, most = 1_000_000, 10_000 // in one append
	l := open(b, server.URL("read"))
	c := connected(b, server, "read")
	for n := 0; n < events; n += most {
		some := hosts(fmt.Sprint(n), most)
		require.NoError(b, errOf(l.Append(b.Context(), some...)))
	}
	all := func(read func() (n int, err error)) float64 {
		return seconds(func() { require.Equal(b, events, must.Get(read())(b)) })
	}
	var ours, plain []float64
	for b.Loop() {
		ours = append(ours, all(func() (n int, err error) {
			for _, err := range l.Read(b.Context(), deploylog.Filter{}) {
				if err != nil {
					return n, err
				}
				n++
			}
			return n, nil
		}))
		plain = append(plain, all(func() (n int, err error) {
			rows, err := c.Query(b.Context(), "SELECT * FROM events ORDER BY seq")
			if err != nil {
				return 0, err
			}
			for rows.Next() {
				if _, err := rows.Values(); err != nil {
					return n, err
				}
				n++
			}
			return n, rows.Err()
		}))
	}
	b.ReportMetric(median(ours)/median(plain), "×select")
	b.ReportMetric(median(ours), "s/1M-events")
}

// An event is seen by another process that watches, from when it is to be appended.
func BenchmarkWatch(b *testing.B) {
	l, other := open(b, server.URL("watched")), open(b, server.URL("watched"))
	seen := make(chan struct{})
	ready := event("ready", "a")
	go func() {
		for _, err := range other.Watch(b.Context(), deploylog.Filter{}) {
			if err != nil {
				return // the benchmark is over
			}
			seen <- struct{}{}
		}
	}()
	require.NoError(b, errOf(l.Append(b.Context(), ready)))
	<-seen
	var took []float64
	for b.Loop() {
		took = append(took, seconds(func() {
			require.NoError(b, errOf(l.Append(b.Context(), event(fmt.Sprint(b.N, len(took)), "a"))))
			<-seen
		}))
	}
	b.ReportMetric(median(took)*1e3, "ms-median")
	b.ReportMetric(took[len(took)*99/100]*1e3, "ms-p99")
}
