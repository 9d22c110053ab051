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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
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
	raw := must.Get(os.Create(filepath.Join(dir, "raw")))(b)
	defer raw.Close()
	line := make([]byte, 300)
	var appended, synced time.Duration
	n := 0
	for b.Loop() {
		start := time.Now()
		require.NoError(b, errOf(l.Append(b.Context(), sample(n))))
		appended += time.Since(start)
		n++
		start = time.Now()
		require.NoError(b, errOf(raw.Write(line)))
		require.NoError(b, raw.Sync())
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
					assert.NoError(b, errOf(l.Append(context.Background(), e)))
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
	for n := 0; n < million; n += 10_000 {
		require.NoError(b, errOf(l.Append(b.Context(), samples(n, 10_000)...)))
	}
	b.Logf("appended %d events in %s", million, time.Since(start))
	return l
}

func medianOf(b *testing.B, do func()) time.Duration {
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		do()
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

func BenchmarkReadMillion(b *testing.B) {
	l := openMillion(b)
	b.ReportMetric(medianOf(b, func() {
		n := 0
		for _, err := range l.Read(b.Context(), deploylog.Filter{}) {
			require.NoError(b, err)
			n++
		}
		require.Equal(b, million, n)
	}).Seconds(), "s-median")
}

func BenchmarkLatestInMillion(b *testing.B) {
	l := openMillion(b)
	b.ReportMetric(medianOf(b, func() {
		_, ok, err := l.Latest(b.Context(), "resource/service-007", deploylog.Succeeded)
		require.True(b, ok && err == nil, "%v", err)
	}).Seconds()*1000, "ms-median")
}
