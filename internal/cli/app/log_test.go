package app_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/must"
)

func TestTheLogIsClosedThoughWhatIsDoneWithItPanics(t *testing.T) {
	a := app.New()
	a.Global.Log = filepath.Join(t.TempDir(), "log.db")
	var log deploylog.Log
	func() {
		defer func() { _ = recover() }()
		_ = a.WithNewLog(t.Context(), func(opened deploylog.Log) error {
			log = opened
			panic("a mistake")
		})
	}()
	for _, err := range log.Read(t.Context(), deploylog.Filter{}) {
		if err != nil {
			return
		}
	}
	t.Error("it is open")
}

// Whoever may write the log must be able to use what belongs to it, also where root has
// kept it, and nobody else may read it.
func TestTextsAreGivenToWhoMayWriteTheLog(t *testing.T) {
	id := os.Getuid()
	if id == 0 {
		id = 65534
	}
	for mode, wants := range map[os.FileMode][2]os.FileMode{0o600: {0o700, 0o600}, 0o660: {0o770, 0o660}, 0o644: {0o700, 0o600}} {
		a := app.New()
		dir := t.TempDir()
		a.Workspace, a.Global.Log = t.TempDir(), filepath.Join(dir, "link")
		path := filepath.Join(dir, "log.db")
		require.NoError(t, errors.Join(os.WriteFile(path, nil, mode), os.Chmod(path, mode), os.Lchown(path, id, -1), os.Symlink(path, a.Global.Log)))
		texts := must.Get(a.Texts())(t)
		digest := must.Get(texts.Keep([]byte("a secret")))(t)
		objects := filepath.Join(dir, "objects")
		for path, want := range map[string]os.FileMode{
			objects: wants[0], filepath.Join(objects, "sha256"): wants[0], filepath.Join(objects, "sha256", digest): wants[1],
		} {
			info := must.Get(os.Stat(path))(t)
			if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != id || info.Mode().Perm() != want {
				t.Errorf("of a log of %d with mode %v, %s is of %d and has mode %v, want %v", id, mode, path, owner, info.Mode(), want)
			}
		}
	}
}

// A log is shared by another mode, or kept from others again, when much lies beside it:
// that follows when its owner next uses it, whatever for.
func TestTextsFollowALogThatIsSharedLater(t *testing.T) {
	a := app.New()
	a.Workspace = t.TempDir()
	dir := t.TempDir()
	a.Global.Log = filepath.Join(dir, "log.db")
	require.NoError(t, os.WriteFile(a.Global.Log, nil, 0o600))
	texts := must.Get(a.Texts())(t)
	digest := must.Get(texts.Keep([]byte("a secret")))(t)
	store := texts.Objects()
	require.NoError(t, must.Fail(store.MakeSalt()))
	objects := filepath.Join(dir, "objects")
	wantModes := func(after string, directories, files os.FileMode) {
		t.Helper()
		for path, want := range map[string]os.FileMode{
			objects: directories, filepath.Join(objects, "sha256"): directories,
			filepath.Join(objects, "sha256", digest): files, filepath.Join(objects, "salt"): files,
		} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
				t.Errorf("after %s %s has mode %v, want %v (%v)", after, path, info.Mode(), want, err)
			}
		}
	}
	chmod := func(mode os.FileMode) { require.NoError(t, os.Chmod(a.Global.Log, mode)) }
	chmod(0o660)
	require.NoError(t, must.Fail(a.Texts()))
	wantModes("a command", 0o770, 0o660)
	chmod(0o600)
	require.NoError(t, must.Fail(texts.Keep([]byte("another"))))
	wantModes("another is kept", 0o700, 0o600)
	chmod(0o660)
	require.NoError(t, must.Fail(store.MakeSalt()))
	wantModes("the salt is used", 0o770, 0o660)
}

// drafter is a command that drafts for a server.
type drafter struct {
	*testing.T
	app *app.App
	now time.Time
}

func newDrafter(t *testing.T) *drafter {
	d := &drafter{T: t, app: app.New(), now: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)}
	d.app.Workspace, d.app.Global.Server = t.TempDir(), "https://deploy.example"
	d.app.Now = func() time.Time { return d.now }
	return d
}

func (d *drafter) open() (log deploylog.Log, closed func()) {
	log, end, err := d.app.Drafting(d.Context(), nil)
	require.NoError(d, err)
	return log, func() { assert.NoError(d, end()) }
}

// draft is the id of the log that a command uses, and how many events it then has.
func (d *drafter) draft(name string) (id string, events int) {
	log, closed := d.open()
	defer closed()
	require.NoError(d, must.Fail(log.Append(d.Context(), deploylog.Event{Deployment: name, Target: "run/draft", Name: "run-started", Attempt: 1})))
	for _, err := range log.Read(d.Context(), deploylog.Filter{}) {
		require.NoError(d, err)
		events++
	}
	return log.ID(), events
}

// kept is what there is of drafts.
func (d *drafter) kept() (names []string) {
	entries := must.Get(os.ReadDir(filepath.Join(d.app.Workspace, ".deployster")))(d)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// What was drafted is known for a day, to whoever drafts next; then it is removed, with what an
// earlier version and a command that was killed have left.
func TestDraftsAreRemovedAfterTheirLife(t *testing.T) {
	d := newDrafter(t)
	first, _ := d.draft("a")
	d.now = d.now.Add(23 * time.Hour)
	id, events := d.draft("b")
	assert.True(t, id == first && events == 2, "within a day %d events are known", events)
	dir := filepath.Join(d.app.Workspace, ".deployster")
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "drafts.db"), nil, 0o600), os.Mkdir(filepath.Join(dir, "drafts.db.locks"), 0o700), os.MkdirAll(filepath.Join(dir, ".drafts-old-1", "drafts"), 0o700),
		os.WriteFile(filepath.Join(dir, "deployments.db"), []byte("kept"), 0o600)); err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(2 * time.Hour)
	if id, events := d.draft("c"); id != first || events != 3 { // which still owns what the others left
		t.Errorf("the last one knows %d events", events)
	}
	assert.Equal(t, []string{"deployments.db", "drafts.lock"}, d.kept(), "it leaves")
	id, events = d.draft("d")
	assert.True(t, id != first && events == 1, "a new one has %d events", events)
	assert.Contains(t, d.kept(), "drafts", "it leaves")
}

// Nobody's log is removed while they use it; the last who does removes it.
func TestDraftsThatAreUsedAreKept(t *testing.T) {
	d := newDrafter(t)
	d.draft("a")
	d.now = d.now.Add(48 * time.Hour)
	log, closed := d.open()
	id, _ := d.draft("b")
	require.Contains(t, d.kept(), "drafts", "it is removed")
	_, err := log.Append(t.Context(), deploylog.Event{Deployment: "c", Target: "run/draft", Name: "run-started", Attempt: 1})
	assert.True(t, err == nil && log.ID() == id, "it cannot be used: %v", err)
	closed()
	if slices.Contains(d.kept(), "drafts") {
		t.Errorf("it is left: %v", d.kept())
	}
}

func TestDraftsFollowNoLinks(t *testing.T) {
	d := newDrafter(t)
	d.draft("a")
	dir, elsewhere := filepath.Join(d.app.Workspace, ".deployster"), t.TempDir()
	precious := filepath.Join(elsewhere, "precious")
	if err := errors.Join(os.WriteFile(precious, nil, 0o600), os.Symlink(elsewhere, filepath.Join(dir, "drafts.db")), os.Symlink(elsewhere, filepath.Join(dir, ".drafts-old-x"))); err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(48 * time.Hour)
	d.draft("b")
	_, err := os.Stat(precious)
	assert.NoError(t, err)
	assert.Equal(t, []string{"drafts.lock"}, d.kept(), "it leaves")
	lock := filepath.Join(dir, "drafts.lock")
	require.NoError(t, errors.Join(os.Remove(lock), os.Symlink(precious, lock)))
	_, _, err = d.app.Drafting(t.Context(), nil)
	assert.ErrorContains(t, err, "drafts.lock", "a lock that is a link")
}
