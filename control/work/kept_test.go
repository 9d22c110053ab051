package work

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deployster-go/deployster/control/gc"
	"github.com/deployster-go/deployster/control/rundirs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/runner/invoke"
)

// Each revision has a place of its own on a host, but is not kept for that.
func TestOldRevisionsOfAnEnvironmentAreNotKept(t *testing.T) {
	dir := t.TempDir()
	log, err := sqlite.Open(t.Context(), filepath.Join(dir, "deployments.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	now := time.Now()
	var k rundirs.Kept
	var want []string
	const revisions = 100
	for revision := 1; revision <= revisions; revision++ {
		for _, task := range []tasks.Task{
			{Environment: "eu/prod", Host: "web-1"}, {Environment: "eu/prod", Host: "web-2"}, {Environment: "eu/test", Host: "web-1"},
		} {
			task.Revision = revision
			at := now.Add(time.Duration(revision-1000) * 24 * time.Hour)
			run := ulid.MustNew(ulid.Timestamp(at), ulid.DefaultEntropy()).String()
			target := deploylog.Target(invoke.Placed("run/web.yaml", placeOf(task)))
			for _, name := range []string{"run-started", "run-finished-successfully"} {
				if _, err := log.Append(t.Context(), deploylog.Event{Deployment: run, Target: target, Name: name, Attempt: 1, Data: []byte(`{}`)}); err != nil {
					t.Fatal(err)
				}
			}
			work := filepath.Join(dir, "work", run)
			if err := errors.Join(os.MkdirAll(work, 0o700), os.Chtimes(work, at, at)); err != nil {
				t.Fatal(err)
			}
			if revision > revisions-gc.KeptRuns {
				want = append(want, run)
			}
			k.Add(placeOf(task), filepath.Join(dir, "elsewhere", run))
		}
	}
	if k.Places() != 3 {
		t.Errorf("a process remembers %d places, want 3", k.Places())
	}
	c := gc.Collector{Log: log, Dir: dir, Now: now, Before: now.Add(-gc.DefaultAge)}
	removed, err := c.Collect(t.Context())
	if err != nil || removed[0].Count != 3*(revisions-gc.KeptRuns) {
		t.Errorf("it removed %+v, %v", removed, err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "work"))
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	slices.Sort(want)
	if !slices.Equal(left, want) {
		t.Errorf("left is %v, %v, want %v", left, err, want)
	}
}
