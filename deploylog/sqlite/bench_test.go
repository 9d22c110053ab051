package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// sample is the n-th event of a typical history: deployments of ten resources
// that are each found stale and changed by one action.
func sample(n int) deploylog.Event {
	names := [...]string{
		"resource-started", "resource-initialized", "resource-resolved", "action-started",
		"action-finished-successfully", "resource-verified", "resource-finished-successfully",
	}
	return deploylog.Event{
		Deployment: fmt.Sprintf("01JD3K%020d", n/70),
		Target:     deploylog.Target(fmt.Sprintf("resource/service-%03d", n/7%50)),
		Revision:   "4f0c2a1",
		Name:       names[n%len(names)],
		Data:       []byte(`{"v":1,"duration_ms":1840,"exit":0,"changed":true}`),
	}
}

func BenchmarkAppendAgainstFsync(b *testing.B) {
	dir := b.TempDir()
	l := openLog(b, filepath.Join(dir, "log.db"))
	raw, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close()
	line := make([]byte, 300)
	var appended, synced time.Duration
	n := 0
	for b.Loop() {
		start := time.Now()
		if _, err := l.Append(b.Context(), sample(n)); err != nil {
			b.Fatal(err)
		}
		appended += time.Since(start)
		n++
		start = time.Now()
		if _, err := raw.Write(line); err != nil {
			b.Fatal(err)
		}
		if err := raw.Sync(); err != nil {
			b.Fatal(err)
		}
		synced += time.Since(start)
	}
	b.ReportMetric(float64(appended.Microseconds())/float64(n), "µs/append")
	b.ReportMetric(float64(synced.Microseconds())/float64(n), "µs/fsync")
	b.ReportMetric(float64(appended)/float64(synced), "append/fsync")
}

func BenchmarkWriters64Against1(b *testing.B) {
	l := openLog(b, filepath.Join(b.TempDir(), "log.db"))
	n := 0 // both sides write the same history, only more or less at once
	write := func(writers, each int) float64 {
		history := make(chan deploylog.Event, writers*each)
		for range cap(history) {
			history <- sample(n)
			n++
		}
		close(history)
		start := time.Now()
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for e := range history {
					if _, err := l.Append(context.Background(), e); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
		return float64(writers*each) / time.Since(start).Seconds()
	}
	var one, many float64
	rounds := 0.0
	for b.Loop() {
		one += write(1, 200)
		many += write(64, 100)
		rounds++
	}
	b.ReportMetric(one/rounds, "appends/s-by-1")
	b.ReportMetric(many/rounds, "appends/s-by-64")
	b.ReportMetric(many/one, "64/1")
}

const million = 1_000_000

func openMillion(b *testing.B) *Log {
	l := openLog(b, filepath.Join(b.TempDir(), "log.db"))
	start := time.Now()
	for n := 0; n < million; {
		events := make([]deploylog.Event, 10_000)
		for i := range events {
			events[i] = sample(n)
			n++
		}
		if _, err := l.Append(b.Context(), events...); err != nil {
			b.Fatal(err)
		}
	}
	b.Logf("appended %d events in %s", million, time.Since(start))
	return l
}

func median(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)/2]
}

func BenchmarkReadMillion(b *testing.B) {
	l := openMillion(b)
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		n := 0
		for _, err := range l.Read(b.Context(), deploylog.Filter{}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != million {
			b.Fatalf("read %d events", n)
		}
		took = append(took, time.Since(start))
	}
	b.ReportMetric(median(took).Seconds(), "s-median")
}

func BenchmarkLatestInMillion(b *testing.B) {
	l := openMillion(b)
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		if _, ok, err := l.Latest(b.Context(), "resource/service-007", deploylog.Succeeded); err != nil || !ok {
			b.Fatal(ok, err)
		}
		took = append(took, time.Since(start))
	}
	b.ReportMetric(median(took).Seconds()*1000, "ms-median")
}
