package objects_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
)

func keep(t *testing.T, s objects.Store, content string) (hash string) {
	hash = must.Get(s.Keep([]byte(content)))(t)
	wantContent(t, s, hash, content)
	return hash
}

func wantContent(t *testing.T, s objects.Store, hash, content string) {
	got, err := s.Load(hash)
	assert.True(t, err == nil && string(got) == content, "object %s holds %q (%v), want %q", hash, got, err, content)
}

// refused loads an object, which must fail with its hash.
func refused(t *testing.T, s objects.Store, hash string, as error) {
	got, err := s.Load(hash)
	assert.True(t, errors.Is(err, as) && got == nil && strings.Contains(err.Error(), hash), "object %s is %q, %v, want the error %v with its hash", hash, got, err, as)
	assert.False(t, errors.Is(err, fs.ErrNotExist), "%v could be taken for a file that nobody ever made", err)
}

func TestAnObjectIsKeptByItsHashForItsOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "objects")
	s := objects.In(dir, nil)
	hash := keep(t, s, "a secret\n")
	assert.True(t, hash == objects.Hash([]byte("a secret\n")) && objects.IsHash(hash), "its hash is %s", hash)
	path := filepath.Join(dir, "sha256", hash)
	for path, mode := range map[string]os.FileMode{dir: 0o700 | os.ModeDir, filepath.Dir(path): 0o700 | os.ModeDir, path: 0o600} {
		info, err := os.Stat(path)
		assert.True(t, err == nil && info.Mode() == mode, "%s has mode %v, want %v (%v)", path, info.Mode(), mode, err)
	}
	assert.Equal(t, hash, keep(t, s, "a secret\n"), "kept again")
	keep(t, s, "")
	entries, err := os.ReadDir(filepath.Dir(path))
	assert.True(t, err == nil && len(entries) == 2, "there are %v (%v), not two objects", entries, err)
}

// Whoever keeps an object may be another than those who are to read it.
func TestWhatIsMadeIsGivenToItsUsersBeforeItHasItsName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "objects")
	var given []string
	s := objects.In(dir, func(f *os.File, made bool) {
		info := must.Get(f.Stat())(t)
		what := filepath.Base(f.Name())
		if !info.IsDir() {
			what = fmt.Sprintf("%d bytes", info.Size())
		}
		given = append(given, fmt.Sprint(what, " ", made))
	})
	keep(t, s, "content")
	keep(t, s, "content")
	keep(t, s, "other")
	want := []string{
		"objects true", "sha256 true", "0 bytes true",
		"sha256 false", "objects false", "7 bytes false", // they may be others by now
		"sha256 false", "objects false", "0 bytes true",
	}
	assert.True(t, slices.Equal(given, want), "given are %q, want %q", given, want)
}

func TestAStoreMayBeALink(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "objects")
	require.NoError(t, os.Symlink(t.TempDir(), dir))
	keep(t, objects.In(dir, nil), "content")
}

func TestAMissingOrAlteredObjectIsRefusedWithItsHashAndCanBeKeptAgain(t *testing.T) {
	dir := t.TempDir()
	s := objects.In(dir, nil)
	hash := keep(t, s, "content")
	path := filepath.Join(dir, "sha256", hash)
	for what, alter := range map[string]func() error{
		"longer":  func() error { return os.WriteFile(path, []byte("content and more"), 0o600) },
		"half":    func() error { return os.WriteFile(path, []byte("cont"), 0o600) },
		"empty":   func() error { return os.Truncate(path, 0) },
		"huge":    func() error { return os.Truncate(path, 1<<40) },
		"a pipe":  func() error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
		"another": func() error { return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path)) },
	} {
		require.NoError(t, alter(), what)
		refused(t, s, hash, objects.ErrAltered)
		keep(t, s, "content")
	}
	require.NoError(t, os.Remove(path))
	refused(t, s, hash, objects.ErrMissing)
	keep(t, s, "content")
}

func TestWhatIsNoHashNamesNoFile(t *testing.T) {
	dir := t.TempDir()
	s := objects.In(dir, nil)
	hash := keep(t, s, "content")
	for _, bad := range []string{"", hash[:10], strings.ToUpper(hash), "../sha256/" + hash, filepath.Join(dir, "sha256", hash), hash + "\n"} {
		got, err := s.Load(bad)
		assert.True(t, err != nil && strings.Contains(err.Error(), "SHA-256"), "%q is %q, %v", bad, got, err)
	}
}

func TestWhatCannotBeKeptIsNotThere(t *testing.T) {
	dir := t.TempDir()
	assert.ErrorContains(t, must.Fail(objects.In(dir, nil).Keep(make([]byte, 16<<20+1))), "bytes")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	assert.Error(t, must.Fail(objects.In(filepath.Join(dir, "file"), nil).Keep([]byte("x"))), "it was kept below a file")
}

func TestManyKeepOneContentAtOnce(t *testing.T) {
	s := objects.In(t.TempDir(), nil)
	content := bytes.Repeat([]byte("0123456789"), 10_000)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			hash, err := s.Keep(content)
			if err != nil {
				t.Error(err)
				return
			}
			wantContent(t, s, hash, string(content))
		})
	}
	group.Wait()
}

func TestAStoreHasOneSalt(t *testing.T) {
	dir := t.TempDir()
	store := objects.In(dir, nil)
	assert.ErrorIs(t, must.Fail(store.Salt()), objects.ErrMissing, "before it is made")
	salts := make([][]byte, 20)
	var making sync.WaitGroup
	for i := range salts {
		making.Go(func() {
			var err error
			if salts[i], err = objects.In(dir, nil).MakeSalt(); err != nil {
				t.Error(err)
			}
		})
	}
	making.Wait()
	for _, salt := range salts {
		if len(salt) != 32 || !bytes.Equal(salt, salts[0]) {
			t.Errorf("the salt is %x and %x", salt, salts[0])
		}
	}
	path := filepath.Join(dir, "salt")
	info, err := os.Stat(path)
	assert.True(t, err == nil && info.Mode() == 0o600, "it has the mode %v, %v", info.Mode(), err)
	other, err := objects.In(t.TempDir(), nil).MakeSalt()
	assert.True(t, err == nil && !bytes.Equal(other, salts[0]), "of another store it is %x, %v", other, err)
	left, err := filepath.Glob(filepath.Join(dir, ".deployster-new-*"))
	assert.True(t, err == nil && len(left) == 0, "left are %v, %v", left, err)
	for _, text := range []string{"", "half", string(bytes.Repeat([]byte("x"), 64))} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		assert.ErrorIs(t, must.Fail(store.MakeSalt()), objects.ErrAltered, "of the salt %q", text)
	}
}

// What is opened is what is loaded, and what was altered is neither.
func TestAnObjectIsReadWithoutHoldingIt(t *testing.T) {
	dir := t.TempDir()
	s := objects.In(dir, nil)
	hash := keep(t, s, "a text")
	f, size, err := s.Open(hash)
	require.True(t, err == nil && size == 6, "%v %v", size, err)
	text, err := io.ReadAll(f)
	err = errors.Join(err, f.Close())
	assert.True(t, err == nil && string(text) == "a text", "%q, %v", text, err)
	assert.NoError(t, s.Check(hash))
	assert.ErrorIs(t, s.Check(strings.Repeat("0", 64)), objects.ErrMissing, "what is missing")
	err = s.Check("../" + hash)
	assert.True(t, err != nil && !errors.Is(err, objects.ErrMissing), "what is no hash: %v", err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sha256", hash), []byte("b text"), 0o600))
	assert.ErrorIs(t, s.Check(hash), objects.ErrAltered, "what was altered")
}

func TestObjectsThatNobodyNeedsArePruned(t *testing.T) {
	dir := t.TempDir()
	store := objects.In(dir, nil)
	old, before := time.Now().Add(-3*objects.MinAge), time.Now().Add(-objects.MinAge)
	hashes := map[string]string{}
	for _, name := range []string{"needed", "young", "old", "again"} {
		hash := must.Get(store.Keep([]byte(name)))(t)
		hashes[name] = hash
		if path := filepath.Join(dir, "sha256", hash); name != "young" {
			require.NoError(t, os.Chtimes(path, old, old))
		}
	}
	for name, at := range map[string]time.Time{".deployster-new-1": old, ".removed-1": old, ".deployster-new-2": time.Now(), "another": old} {
		path := filepath.Join(dir, "sha256", name)
		require.NoError(t, errors.Join(os.WriteFile(path, []byte("half"), 0o600), os.Chtimes(path, at, at)))
	}
	if err := store.KeepAll([]byte("needed"), []byte("again")); err != nil { // what is stored again is as new
		t.Fatal(err)
	}
	require.NoError(t, os.Chtimes(filepath.Join(dir, "sha256", hashes["needed"]), old, old))
	needed := func(hash string) bool { return hash == hashes["needed"] }
	for _, dryRun := range []bool{true, false} {
		pruned, err := store.Prune(t.Context(), before, needed, dryRun)
		assert.True(t, err == nil && pruned.Count == 3 && pruned.Bytes == 11 && pruned.Oldest.Before(before), "dry run %v: it removed %+v, %v", dryRun, pruned, err)
	}
	for name, hash := range hashes {
		_, err := store.Load(hash)
		assert.True(t, name == "old" == errors.Is(err, objects.ErrMissing), "%s: %v", name, err)
	}
	wantLeft(t, filepath.Join(dir, "sha256"))
	pruned, err := objects.In(t.TempDir(), nil).Prune(t.Context(), before, needed, false)
	assert.True(t, err == nil && pruned.Count == 0, "of nothing: %+v, %v", pruned, err)
}

// Who takes an object away may be killed before it sees that this is new, or needed.
func TestWhatWasTakenAwayIsBroughtBack(t *testing.T) {
	dir := t.TempDir()
	store := objects.In(dir, nil)
	old, before := time.Now().Add(-3*objects.MinAge), time.Now().Add(-objects.MinAge)
	at := func(name string) string { return filepath.Join(dir, "sha256", name) }
	taken := func(content string, used time.Time) (hash string) {
		hash = keep(t, store, content)
		require.NoError(t, errors.Join(os.Rename(at(hash), at(".removed-"+hash)), os.Chtimes(at(".removed-"+hash), used, used)))
		return hash
	}
	loaded := taken("loaded", old)
	wantContent(t, store, loaded, "loaded")
	needed, young, rest := taken("needed", old), taken("young", time.Now()), taken("rest", old)
	is := func(hash string) bool { return hash == needed || hash == loaded }
	for _, dryRun := range []bool{true, false, false} {
		pruned, err := store.Prune(t.Context(), before, is, dryRun)
		require.NoError(t, err, "dry run %v: it removed %+v,", dryRun, pruned)
		_, err = os.Lstat(at(needed))
		assert.True(t, dryRun == (err != nil), "dry run %v: of what is needed: %v", dryRun, err)
	}
	for hash, content := range map[string]string{loaded: "loaded", needed: "needed", young: "young"} {
		assert.NoError(t, must.Fail(os.Lstat(at(hash))), "%s is not back", content)
		wantContent(t, store, hash, content)
	}
	refused(t, store, rest, objects.ErrMissing)
	for _, hash := range []string{loaded, needed, rest} {
		assert.ErrorIs(t, must.Fail(os.Lstat(at(".removed-"+hash))), os.ErrNotExist, "its other name stays")
	}
}

func wantLeft(t *testing.T, dir string) {
	entries, err := os.ReadDir(dir)
	assert.True(t, err == nil && len(entries) == 5 && strings.HasPrefix(entries[0].Name(), ".deployster-new-2"), "left are %v, %v", entries, err)
}
