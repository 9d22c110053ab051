package query

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
)

// What a command pays before it can answer, by reading all of a long log and by beginning
// with a snapshot of it.
func BenchmarkPipelinesOfALongLog(b *testing.B) {
	log, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "log.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = log.Close() })
	const hosts, stages, revisions = 200, 3, 20
	rollout(b, log, hosts, stages, revisions)
	look := func(log deploylog.Log) (took time.Duration, head int64) {
		begun := time.Now()
		p := NewPipelines(log, time.Now)
		if err := p.Follow(b.Context(), 0); err != nil {
			b.Fatal(err)
		}
		if _, err := p.Status(false, false); err != nil {
			b.Fatal(err)
		}
		return time.Since(begun), p.Head()
	}
	_, head := look(log) // which keeps the snapshot
	var replayed, restored time.Duration
	for b.Loop() {
		whole, _ := look(struct{ deploylog.Log }{log})
		short, _ := look(log)
		replayed, restored = replayed+whole, restored+short
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(head), "events")
	b.ReportMetric(replayed.Seconds()*1000/float64(b.N), "replay-ms")
	b.ReportMetric(restored.Seconds()*1000/float64(b.N), "snapshot-ms")
	b.ReportMetric(replayed.Seconds()/restored.Seconds(), "ratio")
}
