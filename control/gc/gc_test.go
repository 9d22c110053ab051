package gc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deployster-go/deployster/control/gc"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/protected"
)

// place is a workspace in which runs leave something.
type place struct {
	*testing.T
	dir string
	log *sqlite.Log
	now time.Time
	n   uint64
}

func newPlace(t *testing.T) *place {
	p := &place{T: t, dir: filepath.Join(t.TempDir(), ".deployster"), now: time.Now()}
	if err := os.MkdirAll(filepath.Join(p.dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	log, err := sqlite.Open(t.Context(), filepath.Join(p.dir, "deployments.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	p.log = log
	return p
}

// left makes what a run left that was last used some time ago.
func (p *place) left(ago time.Duration) (run string) {
	p.Helper()
	at := p.now.Add(-ago)
	p.n++
	var entropy [10]byte
	copy(entropy[:], fmt.Sprintf("%010d", p.n))
	id := ulid.ULID{}
	if err := errors.Join(id.SetTime(ulid.Timestamp(at)), id.SetEntropy(entropy[:])); err != nil {
		p.Fatal(err)
	}
	run = id.String()
	p.write(run, at)
	return run
}

func (p *place) write(name string, at time.Time) {
	p.Helper()
	dir := filepath.Join(p.dir, "work", name)
	err := errors.Join(
		os.MkdirAll(filepath.Join(dir, "web"), 0o700),
		os.WriteFile(filepath.Join(dir, "web", "01-state.stdin.json"), []byte("0123456789"), 0o600),
		os.Chtimes(dir, at, at),
	)
	if err != nil {
		p.Fatal(err)
	}
}

// ran is a run of a target that ended, or that only began.
func (p *place) ran(target deploylog.Target, ago time.Duration, names ...string) (run string) {
	p.Helper()
	run = p.left(ago)
	for _, name := range names {
		if _, err := p.log.Append(p.Context(), deploylog.Event{Deployment: run, Target: target, Name: name, Attempt: 1, Data: json.RawMessage(`{}`)}); err != nil {
			p.Fatal(err)
		}
	}
	return run
}

const (
	started   = "run-started"
	succeeded = "run-finished-successfully"
	failed    = "run-failed"
)

func (p *place) collect(olderThan time.Duration, dryRun bool) map[string]gc.Removed {
	p.Helper()
	c := gc.Collector{Log: p.log, Dir: p.dir, Now: p.now, Before: p.now.Add(-olderThan), DryRun: dryRun}
	list, err := c.Collect(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	by := map[string]gc.Removed{}
	for _, r := range list {
		by[r.Kind] = r
	}
	return by
}

func (p *place) wantLeft(want ...string) {
	p.Helper()
	entries, err := os.ReadDir(filepath.Join(p.dir, "work"))
	if err != nil {
		p.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	want = slices.Sorted(slices.Values(want))
	slices.Sort(got)
	if !slices.Equal(got, want) {
		p.Errorf("left is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const day = 24 * time.Hour

func TestWhatIsNeededStays(t *testing.T) {
	p := newPlace(t)
	var keep []string
	keep = append(keep, p.ran("run/web.yaml", 300*day, started)) // died, and nobody closed it
	p.ran("run/web.yaml", 210*day, started, failed)
	keep = append(keep, p.ran("run/web.yaml", 205*day, started, failed)) // the last that failed
	alive := p.ran("run/web.yaml", 202*day, started, succeeded)
	held, err := runs.Watch(runs.Options{Log: p.log, ID: alive})
	if err != nil {
		t.Fatal(err)
	}
	oldest := p.ran("run/web.yaml", 400*day, started, succeeded)
	p.ran("run/web.yaml", 200*day, started, succeeded)
	for i := range gc.KeptRuns {
		keep = append(keep, p.ran("run/web.yaml", time.Duration(199-i)*day, started, succeeded))
	}
	keep = append(keep,
		p.ran("run/web.yaml@host", 500*day, started, succeeded), // the last of its target
		p.left(3*day), // of a plan, or of another log
	)
	p.left(50 * day)
	for _, name := range []string{"type-test-1", "notes", strings.ToLower(oldest)} { // no runs
		p.write(name, p.now.Add(-900*day))
		keep = append(keep, name)
	}
	all, err := os.ReadDir(filepath.Join(p.dir, "work"))
	if err != nil {
		t.Fatal(err)
	}
	removed := p.collect(0, true)[gc.Work]
	if removed.Count != 4 || removed.Bytes != 40 || removed.Oldest == nil || p.now.Sub(*removed.Oldest).Round(day) != 400*day {
		t.Errorf("it would remove %+v, want 4 of 10 bytes each, of which the oldest is of 400 days ago", removed)
	}
	if again, _ := os.ReadDir(filepath.Join(p.dir, "work")); len(again) != len(all) {
		t.Error("a dry run removed something")
	}
	if removed := p.collect(1000*day, false)[gc.Work]; removed.Count != 0 {
		t.Errorf("nothing is as old, and it removed %+v", removed)
	}
	removed = p.collect(0, false)[gc.Work]
	if removed.Count != 4 || removed.Bytes != 40 {
		t.Errorf("it removed %+v", removed)
	}
	p.wantLeft(slices.Concat(keep, []string{alive})...)
	held.End()
	if removed := p.collect(0, false)[gc.Work]; removed.Count != 1 {
		t.Errorf("after its end the run that was alive is not removed: %+v", removed)
	}
	p.wantLeft(keep...)
}

// A process that is killed while it removes leaves nothing that looks like what a run
// left, and the next one removes the rest, however new that is.
func TestWhatAProcessThatDiedDidNotRemoveIsRemoved(t *testing.T) {
	p := newPlace(t)
	run := p.left(time.Minute)
	if err := os.Rename(filepath.Join(p.dir, "work", run), filepath.Join(p.dir, "work", ".removed-"+run)); err != nil {
		t.Fatal(err)
	}
	if removed := p.collect(30*day, false)[gc.Work]; removed.Count != 1 || removed.Bytes != 10 {
		t.Errorf("it removed %+v", removed)
	}
	p.wantLeft()
}

// What a name leads to is not what lies there.
func TestLinksAreNotFollowed(t *testing.T) {
	p := newPlace(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "precious"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	inside := p.left(100 * day)
	linked := p.left(100 * day)
	at := p.now.Add(-100 * day)
	if err := errors.Join(
		os.Symlink(outside, filepath.Join(p.dir, "work", inside, "link")),
		os.Chtimes(filepath.Join(p.dir, "work", inside), at, at),
		os.RemoveAll(filepath.Join(p.dir, "work", linked)),
		os.Symlink(outside, filepath.Join(p.dir, "work", linked)),
	); err != nil {
		t.Fatal(err)
	}
	if removed := p.collect(0, false)[gc.Work]; removed.Count != 1 || removed.Bytes != 10 {
		t.Errorf("it removed %+v", removed)
	}
	p.wantLeft(linked)
	if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
		t.Error(err)
	}
}

func TestLocksOfTheDeadAreRemoved(t *testing.T) {
	p := newPlace(t)
	unlock, err := p.log.TryLock("resource/held")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	for i := range 20 {
		unlock, err := p.log.TryLock(fmt.Sprintf("run/%d", i))
		if err != nil {
			t.Fatal(err)
		}
		unlock()
	}
	if n := p.collect(30*day, false)[gc.Locks].Count; n != 0 {
		t.Errorf("%d new locks were removed", n)
	}
	p.now = p.now.Add(time.Minute)
	for _, dryRun := range []bool{true, false} {
		if n := p.collect(0, dryRun)[gc.Locks].Count; n != 20 {
			t.Errorf("dry run %v: %d locks, want 20", dryRun, n)
		}
	}
	if _, err := p.log.TryLock("resource/held"); !errors.Is(err, deploylog.ErrLocked) {
		t.Errorf("the lock that is held: %v", err)
	}
}

func TestNothingThere(t *testing.T) {
	p := newPlace(t)
	if err := os.Remove(filepath.Join(p.dir, "work")); err != nil {
		t.Fatal(err)
	}
	for kind, removed := range p.collect(0, false) {
		if removed.Count != 0 || removed.Oldest != nil {
			t.Errorf("of %s it removed %+v", kind, removed)
		}
	}
	if _, err := os.Stat(filepath.Join(p.dir, "work")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it made a directory: %v", err)
	}
}

func TestTheEndsOfRunsCollectOnceAnHour(t *testing.T) {
	p := newPlace(t)
	sometimes := func() {
		t.Helper()
		if err := gc.Sometimes(t.Context(), p.log, p.dir, p.now); err != nil {
			t.Fatal(err)
		}
	}
	young := p.left(20 * day)
	p.left(50 * day)
	sometimes()
	p.wantLeft(young)

	old := p.left(60 * day)
	p.now = p.now.Add(59 * time.Minute)
	sometimes()
	p.wantLeft(young, old)

	p.now = p.now.Add(2 * time.Minute)
	unlock, err := p.log.TryLock("gc")
	if err != nil {
		t.Fatal(err)
	}
	sometimes() // another process does it
	p.wantLeft(young, old)
	unlock()
	sometimes()
	p.wantLeft(young)

	// A clock that was wrong does not keep it from it.
	p.left(60 * day)
	p.now = p.now.Add(-5 * day)
	sometimes()
	p.wantLeft(young)
}

func TestTheEndOfARunRemovesABoundedPart(t *testing.T) {
	p := newPlace(t)
	for range 60 {
		p.left(40 * day)
	}
	for _, left := range []int{10, 0} {
		if err := gc.SometimesBounded(t.Context(), p.log, p.dir, p.now, 50, 1000, time.Hour); err != nil {
			t.Fatal(err)
		}
		if entries, err := os.ReadDir(filepath.Join(p.dir, "work")); err != nil || len(entries) != left {
			t.Errorf("%d are left, %v, want %d", len(entries), err, left)
		}
		p.now = p.now.Add(2 * time.Minute)
	}
}

func TestTheEndOfARunTakesABoundedTime(t *testing.T) {
	p := newPlace(t)
	kept := p.left(40 * day)
	if err := gc.SometimesBounded(t.Context(), p.log, p.dir, p.now, 50, 1000, time.Nanosecond); err != nil {
		t.Fatal(err)
	}
	p.wantLeft(kept)
	p.now = p.now.Add(2 * time.Minute) // and the next ends soon go on with it
	if err := gc.SometimesBounded(t.Context(), p.log, p.dir, p.now, 50, 1000, time.Hour); err != nil {
		t.Fatal(err)
	}
	p.wantLeft()
}

// Many steps within days leave more than a month of the runs of people.
func TestTheOldestOfTooManyGo(t *testing.T) {
	p := newPlace(t)
	first := p.ran("run/web.yaml", 9*day, started, succeeded)
	second := p.ran("run/other.yaml", 9*day, started)
	for range 100 {
		p.left(8 * day)
	}
	if err := gc.SometimesBounded(t.Context(), p.log, p.dir, p.now, 50, 100, time.Hour); err != nil {
		t.Fatal(err)
	}
	p.left(8 * day)
	p.left(8 * day)
	p.now = p.now.Add(2 * time.Hour)
	if err := gc.SometimesBounded(t.Context(), p.log, p.dir, p.now, 50, 100, time.Hour); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(p.dir, "work"))
	if err != nil || len(entries) != 102 {
		t.Errorf("%d are left, %v, want 102: of the two oldest each is needed", len(entries), err)
	}
	for _, run := range []string{first, second} {
		if _, err := os.Stat(filepath.Join(p.dir, "work", run)); err != nil {
			t.Error(err)
		}
	}
}

// What cannot be removed takes the time of nothing that can be.
func TestWhatAnotherBeganToRemoveComesLast(t *testing.T) {
	p := newPlace(t)
	begun := ".removed-" + p.left(time.Minute)
	p.write(begun, p.now)
	if err := os.RemoveAll(filepath.Join(p.dir, "work", strings.TrimPrefix(begun, ".removed-"))); err != nil {
		t.Fatal(err)
	}
	p.left(40 * day)
	p.left(50 * day)
	for _, left := range [][]string{{begun}, {}} {
		if err := gc.SometimesBounded(t.Context(), p.log, p.dir, p.now, 2, 1000, time.Hour); err != nil {
			t.Fatal(err)
		}
		p.wantLeft(left...)
		p.now = p.now.Add(2 * time.Minute)
	}
}

func TestLocksAreRemovedBesideWorkThatCannotBe(t *testing.T) {
	p := newPlace(t)
	unlock, err := p.log.TryLock("run/1")
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	work := filepath.Join(p.dir, "work")
	if err := errors.Join(os.Remove(work), os.WriteFile(work, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	later := p.now.Add(time.Minute)
	c := gc.Collector{Log: p.log, Dir: p.dir, Now: later, Before: later}
	removed, err := c.Collect(t.Context())
	if err == nil || len(removed) != 3 || removed[1].Kind != gc.Locks || removed[1].Count != 1 {
		t.Errorf("it removed %+v, %v", removed, err)
	}
}

// What the end of nearly every run costs.
func BenchmarkTheEndOfARun(b *testing.B) {
	dir := b.TempDir()
	log, err := sqlite.Open(b.Context(), filepath.Join(dir, "deployments.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	now := time.Now()
	for b.Loop() {
		if err := gc.Sometimes(b.Context(), log, dir, now); err != nil {
			b.Fatal(err)
		}
	}
}

// A document with secrets stays as long as the log may have somebody ask for it.
func TestProtectedDocumentsThatNothingRefersToAreRemoved(t *testing.T) {
	p := newPlace(t)
	dir := filepath.Join(p.dir, protected.DirName)
	store := protected.New(dir)
	put := func(ago time.Duration) *protected.Ref {
		ref, err := store.Put("a secret")
		if err == nil {
			err = os.Chtimes(filepath.Join(dir, ref.Name), p.now.Add(-ago), p.now.Add(-ago))
		}
		if err != nil {
			t.Fatal(err)
		}
		return &ref
	}
	n := 0
	log := func(target deploylog.Target, name string, d runs.Data) {
		n++
		data, err := json.Marshal(d)
		if err == nil {
			_, err = p.log.Append(t.Context(), deploylog.Event{Deployment: fmt.Sprint("RUN", n), Target: target, Name: name, Attempt: 1, Data: data})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	kept := func(ref *protected.Ref) runs.Data { return runs.Data{Kept: &runs.Kept{Protected: ref}} }
	made := func(ref *protected.Ref) runs.Data { return runs.Data{Made: &runs.Making{Protected: ref}} }
	old := 48 * time.Hour
	keptBefore, keptNow, ofHost, madeBefore, madeNow, adopted, destroyed, moved := put(old), put(old), put(old), put(old), put(old), put(old), put(old), put(old)
	unsaid, writing := put(old), put(time.Minute)
	log("resource/a", "resource-kept", kept(keptBefore))
	log("resource/a", "resource-kept", kept(keptNow))
	log("resource/a@host1", "resource-kept", kept(ofHost))
	log("action/a/set", "action-started", made(madeBefore))
	log("action/a/set", "action-started", made(madeNow))
	log("resource/b", "resource-adopted", made(adopted))
	log("action/c/set", "action-started", made(destroyed))
	log("resource/c", "resource-destroyed", runs.Data{})
	log("action/d/set", "action-started", made(moved))
	log("resource/e", "resource-moved", runs.Data{From: "d"})

	c := gc.Collector{Log: p.log, Dir: p.dir, Now: p.now, Before: p.now, Protected: store}
	removed, err := c.Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(removed, func(r gc.Removed) bool { return r.Kind == gc.Protected }); i < 0 || removed[i].Count != 4 || removed[i].Bytes == 0 {
		t.Errorf("removed %+v", removed)
	}
	for name, c := range map[string]struct {
		ref  *protected.Ref
		stay bool
	}{
		"kept before": {keptBefore, false}, "kept": {keptNow, true}, "kept on a host": {ofHost, true}, "made before": {madeBefore, false}, "made": {madeNow, true},
		"adopted": {adopted, true}, "destroyed": {destroyed, false}, "moved": {moved, true}, "never referred to": {unsaid, false}, "just written": {writing, true},
	} {
		if err := store.Get(*c.ref, new(string)); errors.Is(err, fs.ErrNotExist) == c.stay {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// others has objects that somebody else may remove.
type others struct{ objects.Keeper }

func (others) Prune(context.Context, time.Time, func(string) bool, bool) (objects.Pruned, error) {
	return objects.Pruned{}, objects.ErrOwner
}

// Who may remove something is said, and is no failure of what else is removed.
func TestObjectsThatSomebodyElseMayRemoveAreLeft(t *testing.T) {
	p := newPlace(t)
	store := objects.Via(others{})
	c := gc.Collector{Log: p.log, Dir: p.dir, Now: p.now, Before: p.now, Objects: &store}
	removed, err := c.Collect(t.Context())
	i := slices.IndexFunc(removed, func(r gc.Removed) bool { return r.Kind == gc.Objects })
	if err != nil || i < 0 || !strings.Contains(removed[i].Left, "only who owns the schema") {
		t.Errorf("%+v, %v", removed, err)
	}
}
