package query

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/record"
	machine "github.com/deployster-go/deployster/pipeline/step"
)

// decisions are all that a scheduler of a log decides from.
func decisions(t rapid.TB, log deploylog.Log) map[string]any {
	p := pipelines.New(log, func() time.Time { return snapshotNoon })
	p.KeepSnapshots(pipelines.Snapshots(10))
	if err := p.Follow(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"head": p.Head(), "present": p.Present()}
	for name, s := range p.All() {
		for _, now := range []time.Time{snapshotNoon, snapshotNoon.Add(time.Hour)} {
			at := fmt.Sprint(" of ", name, " at ", now.Format(time.TimeOnly))
			all["steps"+at] = slices.Collect(s.Decide(now, pipeline.Can{}))
			all["wake"+at] = []time.Time{s.Rests(now), s.Deadline(now)}
		}
		all["left of "+name] = s.Left(func(machine.Work) bool { return false })
		all["deleted "+name], all["head of "+name], all["pauses of "+name] = s.Deleted(), s.Head(), s.Pauses()
		all["releases of "+name], all["explanation of "+name] = s.Registrations(), s.Explain(record.Target(name))
		for _, group := range []string{"one", "two"} {
			members, _ := s.Members(group)
			all["members of "+name+" "+group] = members
		}
	}
	return all
}

// A scheduler that begins with a snapshot decides what one does that reads the whole log,
// whatever came in between, and whichever of the snapshots are lost.
func TestASchedulerDecidesTheSameWithASnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlant(t)
		log := &snapshots{p.log, map[string]deploylog.Snapshot{}}
		for range rapid.IntRange(2, 6).Draw(t, "schedulers") {
			for range rapid.IntRange(1, 40).Draw(t, "acts") {
				p.act()
			}
			if p.n(8, "lost") == 0 {
				clear(log.kept)
			}
			if p.n(3, "status") == 0 {
				answers(t, log, 0) // whose snapshot is another
			}
			want, got := decisions(t, p.log), decisions(t, log)
			for what := range want {
				if !reflect.DeepEqual(want[what], got[what]) {
					t.Fatalf("with a snapshot of %d events, the %s is\n%+v, not\n%+v", len(log.kept["schedulers"].Events), what, got[what], want[what])
				}
			}
		}
	})
}

// The next scheduler reads what has changed, and not all that ever happened.
func TestASchedulerDoesNotReadALongHistoryAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	begin := func() (read int, head int64) {
		log, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = log.Close() }()
		counted := &counted{Log: log}
		p := pipelines.New(counted, time.Now)
		if err := p.Follow(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		return counted.read, p.Head()
	}
	log, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rollout(t, log, 50, 1, 20)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	first, head := begin()
	if int64(first) != head {
		t.Errorf("%d of %d events were read at first", first, head)
	}
	if again, now := begin(); again != 0 || now != head {
		t.Errorf("%d events were read again, up to %d of %d", again, now, head)
	}
}
