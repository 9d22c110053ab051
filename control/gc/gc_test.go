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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/gc"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/diskuse"
	"github.com/deployster-go/deployster/internal/must"
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
	require.NoError(t, os.MkdirAll(filepath.Join(p.dir, "work"), 0o700))
	log := must.Get(sqlite.Open(t.Context(), filepath.Join(p.dir, "deployments.db"), sqlite.Options{}))(t)
	t.Cleanup(func() { _ = log.Close() })
	p.log = log
	return p
}

func (p *place) left(ago time.Duration) (run string) {
	at := p.now.Add(-ago)
	p.n++
	var entropy [10]byte
	copy(entropy[:], fmt.Sprintf("%010d", p.n))
	id := ulid.ULID{}
	require.NoError(p, errors.Join(id.SetTime(ulid.Timestamp(at)), id.SetEntropy(entropy[:])))
	run = id.String()
	p.write(run, at)
	return run
}

func (p *place) write(name string, at time.Time) {
	dir := filepath.Join(p.dir, "work", name)
	require.NoError(p, errors.Join(
		os.MkdirAll(filepath.Join(dir, "web"), 0o700),
		os.WriteFile(filepath.Join(dir, "web", "01-state.stdin.json"), []byte("0123456789"), 0o600),
		os.Chtimes(dir, at, at),
	))
}

// each is how many bytes of the disk a run takes that has left no more than write leaves.
func (p *place) each() int64 {
	entries := must.Get(os.ReadDir(filepath.Join(p.dir, "work")))(p)
	return diskuse.Tree(os.DirFS(filepath.Join(p.dir, "work", entries[0].Name())), ".")
}

func (p *place) ran(target deploylog.Target, ago time.Duration, names ...string) (run string) {
	run = p.left(ago)
	for _, name := range names {
		_, err := p.log.Append(p.Context(), deploylog.Event{Deployment: run, Target: target, Name: name, Attempt: 1, Data: json.RawMessage(`{}`)})
		require.NoError(p, err)
	}
	return run
}

const (
	started   = "run-started"
	succeeded = "run-finished-successfully"
	failed    = "run-failed"
)

func (p *place) collect(olderThan time.Duration, dryRun bool) map[string]gc.Removed {
	c := gc.Collector{Log: p.log, Dir: p.dir, Now: p.now, Before: p.now.Add(-olderThan), DryRun: dryRun}
	list := must.Get(c.Collect(p.Context()))(p)
	by := map[string]gc.Removed{}
	for _, r := range list {
		by[r.Kind] = r
	}
	return by
}

func (p *place) wantLeft(want ...string) {
	entries := must.Get(os.ReadDir(filepath.Join(p.dir, "work")))(p)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	want = slices.Sorted(slices.Values(want))
	slices.Sort(got)
	assert.Equal(p, want, got)
}

const day = 24 * time.Hour

func TestWhatIsNeededStays(t *testing.T) {
	p := newPlace(t)
	var keep []string
	keep = append(keep, p.ran("run/web.yaml", 300*day, started)) // died, and nobody closed it
	p.ran("run/web.yaml", 210*day, started, failed)
	keep = append(keep, p.ran("run/web.yaml", 205*day, started, failed)) // the last that failed
	alive := p.ran("run/web.yaml", 202*day, started, succeeded)
	held := must.Get(runs.Watch(runs.Options{Log: p.log, ID: alive}))(t)
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
	all := must.Get(os.ReadDir(filepath.Join(p.dir, "work")))(t)
	removed := p.collect(0, true)[gc.Work]
	if removed.Count != 4 || removed.Bytes != 4*p.each() || removed.Oldest == nil || p.now.Sub(*removed.Oldest).Round(day) != 400*day {
		t.Errorf("it would remove %+v, want 4 with their bytes, of which the oldest is of 400 days ago", removed)
	}
	again, _ := os.ReadDir(filepath.Join(p.dir, "work"))
	assert.Len(t, again, len(all), "a dry run removed something")
	assert.Equal(t, 0, p.collect(1000*day, false)[gc.Work].Count, "nothing is as old, and it removed")
	removed = p.collect(0, false)[gc.Work]
	assert.Equal(t, 4, removed.Count)
	assert.Equal(t, 4*p.each(), removed.Bytes)
	p.wantLeft(slices.Concat(keep, []string{alive})...)
	held.End()
	assert.Equal(t, 1, p.collect(0, false)[gc.Work].Count, "after its end the run that was alive is not removed")
	p.wantLeft(keep...)
}

// A process that is killed while it removes leaves nothing that looks like what a run
// left, and the next one removes the rest, however new that is.
func TestWhatAProcessThatDiedDidNotRemoveIsRemoved(t *testing.T) {
	p := newPlace(t)
	run := p.left(time.Minute)
	each := p.each()
	require.NoError(t, os.Rename(filepath.Join(p.dir, "work", run), filepath.Join(p.dir, "work", ".removed-"+run)))
	removed := p.collect(30*day, false)[gc.Work]
	assert.True(t, removed.Count == 1 && removed.Bytes == each, "it removed %+v", removed)
	p.wantLeft()
}

// What a name leads to is not what lies there.
func TestLinksAreNotFollowed(t *testing.T) {
	p := newPlace(t)
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "precious"), []byte("x"), 0o600))
	inside := p.left(100 * day)
	linked := p.left(100 * day)
	each := p.each()
	at := p.now.Add(-100 * day)
	require.NoError(t, errors.Join(
		os.Symlink(outside, filepath.Join(p.dir, "work", inside, "link")),
		os.Chtimes(filepath.Join(p.dir, "work", inside), at, at),
		os.RemoveAll(filepath.Join(p.dir, "work", linked)),
		os.Symlink(outside, filepath.Join(p.dir, "work", linked)),
	))
	removed := p.collect(0, false)[gc.Work]
	assert.True(t, removed.Count == 1 && removed.Bytes == each, "it removed %+v", removed)
	p.wantLeft(linked)
	_, err := os.Stat(filepath.Join(outside, "precious"))
	assert.NoError(t, err)
}

func TestLocksOfTheDeadAreRemoved(t *testing.T) {
	p := newPlace(t)
	unlock := must.Get(p.log.TryLock("resource/held"))(t)
	defer unlock()
	for i := range 20 {
		unlock := must.Get(p.log.TryLock(fmt.Sprintf("run/%d", i)))(t)
		unlock()
	}
	assert.Equal(t, 0, p.collect(30*day, false)[gc.Locks].Count, "new locks were removed")
	p.now = p.now.Add(time.Minute)
	for _, dryRun := range []bool{true, false} {
		assert.Equal(t, 20, p.collect(0, dryRun)[gc.Locks].Count, dryRun)
	}
	assert.ErrorIs(t, must.Fail(p.log.TryLock("resource/held")), deploylog.ErrLocked, "the lock that is held")
}

func TestNothingThere(t *testing.T) {
	p := newPlace(t)
	require.NoError(t, os.Remove(filepath.Join(p.dir, "work")))
	for kind, removed := range p.collect(0, false) {
		assert.Equal(t, 0, removed.Count, kind)
		assert.Nil(t, removed.Oldest, kind)
	}
	assert.ErrorIs(t, must.Fail(os.Stat(filepath.Join(p.dir, "work"))), fs.ErrNotExist, "it made a directory")
}

func TestTheEndsOfRunsCollectOnceAnHour(t *testing.T) {
	p := newPlace(t)
	sometimes := func() { require.NoError(t, gc.Sometimes(t.Context(), p.log, p.dir, "none", 0, p.now)) }
	young := p.left(20 * day)
	p.left(50 * day)
	sometimes()
	p.wantLeft(young)
	old := p.left(60 * day)
	p.now = p.now.Add(59 * time.Minute)
	sometimes()
	p.wantLeft(young, old)
	p.now = p.now.Add(2 * time.Minute)
	unlock := must.Get(p.log.TryLock("gc"))(t)
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

// A clock that is a year ahead for a while makes nothing old.
func TestAClockThatIsFarAheadForAWhileRemovesNothing(t *testing.T) {
	p := newPlace(t)
	sometimes := func() { require.NoError(t, gc.Sometimes(t.Context(), p.log, p.dir, "none", 0, p.now)) }
	var all []string
	for i := range 2 * gc.KeptRuns {
		all = append(all, p.ran("run/web.yaml", time.Duration(20-i)*day, started, succeeded))
	}
	sometimes()
	right := p.now
	p.now = right.Add(365 * day)
	sometimes()
	p.wantLeft(all...)
	p.now = right.Add(2 * time.Hour)
	sometimes()
	p.wantLeft(all...)
	p.now = right.Add(365 * day) // it is a year later
	sometimes()
	p.wantLeft(all...)
	p.now = p.now.Add(2 * time.Hour)
	sometimes()
	p.wantLeft(all[gc.KeptRuns:]...)
}

// A workspace that is used less than once a month is collected, too.
func TestRareRunsCollectWhatWasOldAtTheLastOne(t *testing.T) {
	p := newPlace(t)
	sometimes := func() { require.NoError(t, gc.Sometimes(t.Context(), p.log, p.dir, "none", 200<<10, p.now)) }
	end := p.now
	var all []string
	for i := range 2 * gc.KeptRuns { // one each 40 days
		p.now = end.Add(time.Duration(i) * 40 * day)
		all = append(all, p.ran("run/web.yaml", 0, started, succeeded))
		sometimes()
	}
	p.wantLeft(all[5:]...) // the last five, of which all but two were old enough
	for _, run := range all[5:] {
		p.grow(run, 50<<10)
	}
	require.NoError(t, os.Remove(filepath.Join(p.dir, "gc-sizes")))
	p.now = p.now.Add(40 * day)
	sometimes()
	p.wantLeft(all[7:]...) // three of 50 KiB are no more than 200 KiB
}

// A try that has no time for all goes on with what the one before has not measured.
func TestALittleTimeAfterAnotherMeasuresAll(t *testing.T) {
	p := newPlace(t)
	for i := range 30 {
		p.grow(p.ran("run/web.yaml", time.Duration(60-i)*time.Minute, started, succeeded), 100<<10)
	}
	ticks := time.Now()
	clock := func() time.Time { ticks = ticks.Add(time.Second); return ticks }
	left := func() int { return len(must.Get(os.ReadDir(filepath.Join(p.dir, "work")))(t)) }
	for try := range 12 {
		require.NoError(t, gc.SometimesTimed(t.Context(), p.log, p.dir, 1<<20, p.now, 6*time.Second, clock))
		p.now = p.now.Add(2 * time.Minute)
		if try < 3 {
			assert.Equal(t, 30, left(), "not all is measured yet")
		}
	}
	assert.LessOrEqual(t, left(), 10)
	assert.GreaterOrEqual(t, left(), 8)
}

func TestTheEndOfARunRemovesABoundedPart(t *testing.T) {
	p := newPlace(t)
	for range 60 {
		p.left(40 * day)
	}
	for _, left := range []int{10, 0} {
		require.NoError(t, gc.SometimesBounded(t.Context(), p.log, p.dir, p.now, 50, 1000, time.Hour))
		entries := must.Get(os.ReadDir(filepath.Join(p.dir, "work")))(t)
		assert.Len(t, entries, left, "%d are left, want %d", len(entries), left)
		p.now = p.now.Add(2 * time.Minute)
	}
}

func TestTheEndOfARunTakesABoundedTime(t *testing.T) {
	p := newPlace(t)
	kept := p.left(40 * day)
	require.NoError(t, gc.SometimesBounded(t.Context(), p.log, p.dir, p.now, 50, 1000, time.Nanosecond))
	p.wantLeft(kept)
	p.now = p.now.Add(2 * time.Minute) // and the next ends soon go on with it
	require.NoError(t, gc.SometimesBounded(t.Context(), p.log, p.dir, p.now, 50, 1000, time.Hour))
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
	require.NoError(t, gc.SometimesBounded(t.Context(), p.log, p.dir, p.now, 50, 100, time.Hour))
	p.left(8 * day)
	p.left(8 * day)
	p.now = p.now.Add(2 * time.Hour)
	require.NoError(t, gc.SometimesBounded(t.Context(), p.log, p.dir, p.now, 50, 100, time.Hour))
	entries, err := os.ReadDir(filepath.Join(p.dir, "work"))
	require.NoError(t, err)
	assert.Len(t, entries, 102)
	for _, run := range []string{first, second} {
		_, err = os.Stat(filepath.Join(p.dir, "work", run))
		assert.NoError(t, err)
	}
}

// grow has a run have left a file of so many bytes, beside the small one that each leaves.
func (p *place) grow(run string, bytes int64) string {
	require.NoError(p, os.WriteFile(filepath.Join(p.dir, "work", run, "web", "02-set.stdout"), make([]byte, bytes), 0o600))
	return run
}

func TestTheOldestRunsOfTooManyBytesGo(t *testing.T) {
	const mib = 1 << 20
	ended := func(p *place, name string, ago time.Duration, end string) string {
		return p.grow(p.ran(deploylog.Target("run/"+name), ago, started, end), mib)
	}
	for name, test := range map[string]struct {
		most int64
		left []int // of the runs below
	}{
		"as many as they are": {11*mib + mib/2, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		"one less":            {11*mib - 1, []int{0, 1, 2, 4, 5, 6, 7, 8, 9, 10}},
		"half of them":        {6*mib + mib/2, []int{0, 1, 2, 8, 9, 10}},
		"too few":             {1, []int{0, 1, 2, 9, 10}},
	} {
		for _, dry := range []bool{true, false} {
			p := newPlace(t)
			all := []string{
				p.grow(p.ran("run/died.yaml", 20*day, started), mib), // nobody closed it
				p.grow(p.left(6*day), mib),                           // of another log, or a plan
				ended(p, "web.yaml", 19*day, failed),                 // the last that failed
				ended(p, "web.yaml", 18*day, succeeded),              // too old to be of the last
				ended(p, "web.yaml", 17*day, succeeded),              // of the last five
				ended(p, "web.yaml", 16*day, succeeded),              //
				ended(p, "web.yaml", 15*day, succeeded),              //
				ended(p, "web.yaml", 14*day, succeeded),              //
				ended(p, "other.yaml", 13*day, succeeded),            // the last but one
				ended(p, "web.yaml", 12*day, succeeded),              // the last
				ended(p, "other.yaml", 11*day, succeeded),            // the last
			}
			alive := must.Get(runs.Watch(runs.Options{Log: p.log, ID: all[0]}))(t)
			c := gc.Collector{Log: p.log, Dir: p.dir, Now: p.now, Before: p.now.Add(-30 * day), MaxWork: test.most, DryRun: dry}
			removed := must.Get(c.Collect(t.Context()))(t)[0]
			alive.End()
			assert.Equal(t, len(all)-len(test.left), removed.Count, name)
			if dry {
				p.wantLeft(all...)
				continue
			}
			var left []string
			for _, i := range test.left {
				left = append(left, all[i])
			}
			p.wantLeft(left...)
		}
	}
}

// The hour is not waited for if runs leave much.
func TestWhatRunsLeaveIsNoticedBeforeAnHour(t *testing.T) {
	const most = 200 << 20
	p := newPlace(t)
	end := func(run string) { require.NoError(t, gc.Sometimes(t.Context(), p.log, p.dir, run, most, p.now)) }
	end("none") // the hour begins
	for i := range 30 {
		run := p.grow(p.ran("run/web.yaml", time.Duration(60-i)*time.Minute, started, succeeded), 9<<20)
		end(run)
	}
	entries := must.Get(os.ReadDir(filepath.Join(p.dir, "work")))(t)
	assert.LessOrEqual(t, len(entries)*9, 210, "%d of 9 MiB are left of 200 MiB", len(entries))
	assert.GreaterOrEqual(t, len(entries)*9, 190, "%d of 9 MiB are left of 200 MiB", len(entries))
	end(p.grow(p.ran("run/web.yaml", time.Second, started, succeeded), 1<<20-100<<10))
	assert.Len(t, must.Get(os.ReadDir(filepath.Join(p.dir, "work")))(t), len(entries)+1, "what is little waits for the hour")
}

// What cannot be removed takes the time of nothing that can be.
func TestWhatAnotherBeganToRemoveComesLast(t *testing.T) {
	p := newPlace(t)
	begun := ".removed-" + p.left(time.Minute)
	p.write(begun, p.now)
	require.NoError(t, os.RemoveAll(filepath.Join(p.dir, "work", strings.TrimPrefix(begun, ".removed-"))))
	p.left(40 * day)
	p.left(50 * day)
	for _, left := range [][]string{{begun}, {}} {
		require.NoError(t, gc.SometimesBounded(t.Context(), p.log, p.dir, p.now, 2, 1000, time.Hour))
		p.wantLeft(left...)
		p.now = p.now.Add(2 * time.Minute)
	}
}

func TestLocksAreRemovedBesideWorkThatCannotBe(t *testing.T) {
	p := newPlace(t)
	unlock := must.Get(p.log.TryLock("run/1"))(t)
	unlock()
	work := filepath.Join(p.dir, "work")
	require.NoError(t, errors.Join(os.Remove(work), os.WriteFile(work, nil, 0o600)))
	later := p.now.Add(time.Minute)
	c := gc.Collector{Log: p.log, Dir: p.dir, Now: later, Before: later}
	removed, err := c.Collect(t.Context())
	assert.True(t, err != nil && len(removed) == 3 && removed[1].Kind == gc.Locks &&
		removed[1].Count == 1, "it removed %+v, %v", removed, err)
}

// A document with secrets stays as long as the log may have somebody ask for it.
func TestProtectedDocumentsThatNothingRefersToAreRemoved(t *testing.T) {
	p := newPlace(t)
	dir := filepath.Join(p.dir, protected.DirName)
	store := protected.New(dir)
	put := func(ago time.Duration) *protected.Ref {
		ref := must.Get(store.Put("a secret"))(t)
		require.NoError(t, os.Chtimes(filepath.Join(dir, ref.Name), p.now.Add(-ago), p.now.Add(-ago)))
		return &ref
	}
	n := 0
	log := func(target deploylog.Target, name string, d runs.Data) {
		n++
		data := must.Get(json.Marshal(d))(t)
		must.Get(p.log.Append(t.Context(), deploylog.Event{Deployment: fmt.Sprint("RUN", n), Target: target, Name: name, Attempt: 1, Data: data}))(t)
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
	require.NoError(t, err)
	i := slices.IndexFunc(removed, func(r gc.Removed) bool { return r.Kind == gc.Protected })
	assert.True(t, i >= 0 && removed[i].Count == 4 && removed[i].Bytes != 0, "removed %+v", removed)
	for name, c := range map[string]struct {
		ref  *protected.Ref
		stay bool
	}{
		"kept before": {keptBefore, false}, "kept": {keptNow, true}, "kept on a host": {ofHost, true}, "made before": {madeBefore, false}, "made": {madeNow, true},
		"adopted": {adopted, true}, "destroyed": {destroyed, false}, "moved": {moved, true}, "never referred to": {unsaid, false}, "just written": {writing, true},
	} {
		err = store.Get(*c.ref, new(string))
		assert.NotEqual(t, c.stay, errors.Is(err, fs.ErrNotExist), name)
	}
}

// others has objects that somebody else may remove.
type others struct{ objects.Keeper }

func (others) Prune(context.Context, time.Time, func(string) bool, bool) (objects.Pruned, error) {
	return objects.Pruned{}, objects.ErrOwner
}

func TestObjectsThatSomebodyElseMayRemoveAreLeft(t *testing.T) {
	p := newPlace(t)
	store := objects.Via(others{})
	c := gc.Collector{Log: p.log, Dir: p.dir, Now: p.now, Before: p.now, Objects: &store}
	removed, err := c.Collect(t.Context())
	i := slices.IndexFunc(removed, func(r gc.Removed) bool { return r.Kind == gc.Objects })
	assert.True(t, err == nil && i >= 0 && strings.Contains(removed[i].Left, "only who owns the schema"), "%+v, %v", removed, err)
}

// group records a group with how it ended, and makes a log of a job of it.
func (p *place) group(name, id string, ago time.Duration, events ...string) {
	for attempt, event := range append([]string{record.GroupTriggered}, events...) {
		e := must.Get(record.New(id, record.Group(id), event, attempt+1, record.Triggered{Name: name}))(p)
		must.Get(p.log.Append(p.Context(), e))(p)
	}
	p.built(id+"/12.1.log", ago)
}

func (p *place) built(name string, ago time.Duration) {
	at, file := p.now.Add(-ago), filepath.Join(p.dir, "builds", name)
	require.NoError(p, errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("0123456789"), 0o600), os.Chtimes(file, at, at)))
	if filepath.Base(filepath.Dir(filepath.Dir(file))) == "work" { // what is in the directory of a job
		require.NoError(p, os.Chtimes(filepath.Dir(file), at, at))
	}
}

func (p *place) builtFiles() (names []string) {
	root := filepath.Join(p.dir, "builds")
	require.NoError(p, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(root, path)
			names = append(names, rel)
		}
		return err
	}))
	return names
}

func TestLogsOfOldBuildGroupsAreRemoved(t *testing.T) {
	p := newPlace(t)
	_, there := p.collect(30*day, false)[gc.Builds]
	assert.False(t, there, "something is said of builds, and there are none")
	p.group("base", "base-1", 300*day, record.GroupFinished)
	p.group("base", "base-2", 300*day) // it waits, or its dispatcher died
	p.group("base", "base-3", 300*day, record.GroupFailed, record.GroupRetried)
	p.group("work/x", "work/x-1", 300*day, record.GroupCanceled)
	for _, id := range []string{"base-4", "base-5", "base-6", "base-7", "base-8"} {
		p.group("base", id, 200*day, record.GroupFinished)
	}
	p.built("base-1/13.2.log", 299*day)
	p.built("base-1/14.1.log", 29*day)
	p.built("base-1/notes.txt", 300*day)
	p.built("12.1.log", 300*day)
	p.built("work/base-1~12.1/out/f", 300*day)
	p.built("work/base-1~13.1.result", 300*day)
	p.built("work/base-2~12.1.result", 300*day)
	p.built("gone-1/1.1.log", 31*day)
	p.built("gone-2/1.1.log", 6*day)
	p.built("work/core~gone-1~1.1/begun.json", 300*day)

	// Of all times of directories only that of a job's own counts.
	require.NoError(t, os.Chtimes(filepath.Join(p.dir, "builds", "work", "base-1~12.1"), p.now.Add(-300*day), p.now.Add(-300*day)))
	before := p.builtFiles()
	dry := p.collect(30*day, true)[gc.Builds]
	assert.Equal(t, before, p.builtFiles(), "a dry run removed something")
	r := p.collect(30*day, false)[gc.Builds]
	assert.True(t, r.Count == 6 && r.Bytes >= 60 && dry.Count == 6 && dry.Bytes == r.Bytes, "removed %+v, and would have %+v", r, dry)
	assert.Equal(t, []string{
		"12.1.log", "base-1/14.1.log", "base-1/notes.txt", "base-2/12.1.log", "base-3/12.1.log", "base-4/12.1.log", "base-5/12.1.log",
		"base-6/12.1.log", "base-7/12.1.log", "base-8/12.1.log", "gone-2/1.1.log", "work/base-2~12.1.result", "work/x-1/12.1.log",
	}, p.builtFiles())
	assert.ErrorIs(t, must.Fail(os.Stat(filepath.Join(p.dir, "builds", "gone-1"))), fs.ErrNotExist, "an empty directory stays")
}

func TestArtifactsThatNobodyNeedsAreRemoved(t *testing.T) {
	p := newPlace(t)
	store := artifacts.In(filepath.Join(p.dir, "artifacts"))
	kept := objects.In(filepath.Join(p.dir, "objects"), nil)
	digests := map[string]string{}
	for _, name := range []string{"named", "source", "old"} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte(name), 0o600))
		a := must.Get(store.Collect(t.Context(), dir, artifacts.Limits{}))(t)
		digests[name] = a.Digest
		then := p.now.Add(-100 * day)
		require.NoError(t, os.Chtimes(filepath.Join(p.dir, "artifacts", "blobs", "sha256", strings.TrimPrefix(a.Digest, "sha256:")), then, then))
	}
	hash, err := kept.Keep(fmt.Appendf(nil, `{"sources":%q}`, digests["source"]))
	require.NoError(t, err)
	data := fmt.Sprintf(`{"artifact":%q,"carries":{"/recipes/0":%q}}`, digests["named"], hash)
	if _, err := p.log.Append(t.Context(), deploylog.Event{Deployment: "base-1", Target: "job/base-1/1", Name: "job-finished-successfully", Attempt: 1, Data: json.RawMessage(data)}); err != nil {
		t.Fatal(err)
	}
	c := gc.Collector{Log: p.log, Dir: p.dir, Now: p.now, Before: p.now.Add(-30 * day), Objects: &kept, Artifacts: store, DryRun: true}
	for _, c.DryRun = range []bool{true, false} {
		r := removed(t, c)
		assert.True(t, r.Count == 1 && r.Bytes >= 1024 && r.Oldest != nil &&
			p.now.Sub(*r.Oldest).Round(day) == 100*day, "dry run %v: it removed %+v", c.DryRun, r)
	}
	for name, digest := range digests {
		err = store.Verify(t.Context(), digest)
		assert.Equal(t, errors.Is(err, artifacts.ErrMissing), name == "old", name)
	}
	c.Artifacts, c.ArtifactsLeft = nil, "another log may need them"
	r := removed(t, c)
	assert.True(t, r.Left == c.ArtifactsLeft && r.Count == 0, "it removed %+v", r)
}

func TestArtifactsOfOldBuildGroupsAreRemoved(t *testing.T) {
	p := newPlace(t)
	store := artifacts.In(filepath.Join(p.dir, "artifacts"))
	kept := objects.In(filepath.Join(p.dir, "objects"), nil)
	digests, copies := map[string]string{}, map[string]string{}
	artifact := func(name string) string {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte(name), 0o600))
		a, err := store.Collect(t.Context(), dir, artifacts.Limits{})
		if err == nil {
			copies[name], err = store.Directory(t.Context(), a.Digest)
		}
		then := p.now.Add(-100 * day)
		err = errors.Join(err, os.Chtimes(filepath.Join(p.dir, "artifacts", "blobs", "sha256", strings.TrimPrefix(a.Digest, "sha256:")), then, then))
		require.NoError(t, err)
		digests[name] = a.Digest
		return a.Digest
	}
	record := func(target deploylog.Target, name, data string) {
		_, err := p.log.Append(t.Context(), deploylog.Event{Deployment: "x", Target: target, Name: name, Attempt: 1, Data: json.RawMessage(data)})
		require.NoError(t, err)
	}
	keep := func(text string) string { return must.Get(kept.Keep([]byte(text)))(t) }
	built := func(id, end string) {
		recipe := keep(fmt.Sprintf(`{"sources":%q}`, artifact("sources of "+id)))
		record(deploylog.Target("group/"+id), "group-triggered", fmt.Sprintf(`{"name":"base","carries":{"/recipes/0":%q}}`, recipe))
		record(deploylog.Target("job/"+id+"/1"), "job-finished-successfully", fmt.Sprintf(`{"artifact":%q}`, artifact("built by "+id)))
		if end != "" {
			record(deploylog.Target("group/"+id), end, `{}`)
		}
	}
	for id, end := range []string{1: "group-finished-successfully", 2: "group-finished-successfully", 3: "group-failed", 4: ""} {
		if id > 0 {
			built(fmt.Sprintf("base-%d", id), end)
		}
	}
	for id := range gc.KeptRuns {
		built(fmt.Sprintf("base-%d", 5+id), "group-failed")
	}
	carried := keep(fmt.Sprintf(`{"submit":{"carries":{"/recipes/0":%q}}}`, keep(fmt.Sprintf(`{"sources":%q}`, artifact("carried")))))
	record("pipeline/shop", "revision-released", fmt.Sprintf(`{"carries":{"/build/packages":%q}}`, carried))
	record("pipeline/shop/packages", "stage-group-built", fmt.Sprintf(`{"artifacts":{"make":"registry.example/base@%s"}}`, artifact("registered")))
	c := gc.Collector{Log: p.log, Dir: p.dir, Now: p.now, Before: p.now.Add(-30 * day), Objects: &kept, Artifacts: store, DryRun: true}
	would := removed(t, c)
	c.DryRun = false
	r := removed(t, c)
	assert.True(t, r.Count == 4 && r.Bytes == would.Bytes && would.Count == 4, "it removed %+v, and would have %+v", r, would)
	for name, digest := range digests {
		gone := strings.HasSuffix(name, "base-1") || strings.HasSuffix(name, "base-3")
		assert.NotEqual(t, gone, store.Has(digest), name)
		_, err := os.Stat(copies[name])
		assert.NotEqual(t, strings.HasSuffix(name, "base-4"), errors.Is(err, os.ErrNotExist), name)
	}
}

func removed(t *testing.T, c gc.Collector) gc.Removed {
	t.Helper()
	for _, r := range must.Get(c.Collect(t.Context()))(t) {
		if r.Kind == gc.Artifacts {
			return r
		}
	}
	t.Fatal("it says nothing of artifacts")
	return gc.Removed{}
}
