package objects_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/deployster-go/deployster/internal/objects"
)

func keep(t *testing.T, s objects.Store, content string) (hash string) {
	t.Helper()
	hash, err := s.Keep([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	wantContent(t, s, hash, content)
	return hash
}

func wantContent(t *testing.T, s objects.Store, hash, content string) {
	t.Helper()
	if got, err := s.Load(hash); err != nil || string(got) != content {
		t.Errorf("object %s holds %q (%v), want %q", hash, got, err, content)
	}
}

// refused loads an object, which must fail with its hash.
func refused(t *testing.T, s objects.Store, hash string, as error) {
	t.Helper()
	got, err := s.Load(hash)
	if !errors.Is(err, as) || got != nil || !strings.Contains(err.Error(), hash) {
		t.Errorf("object %s is %q, %v, want the error %v with its hash", hash, got, err, as)
	}
	if errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v could be taken for a file that nobody ever made", err)
	}
}

func TestAnObjectIsKeptByItsHashForItsOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "objects")
	s := objects.In(dir, nil)
	hash := keep(t, s, "a secret\n")
	if hash != objects.Hash([]byte("a secret\n")) || !objects.IsHash(hash) {
		t.Errorf("its hash is %s", hash)
	}
	path := filepath.Join(dir, "sha256", hash)
	for path, mode := range map[string]os.FileMode{dir: 0o700 | os.ModeDir, filepath.Dir(path): 0o700 | os.ModeDir, path: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s has mode %v, want %v (%v)", path, info.Mode(), mode, err)
		}
	}
	if again := keep(t, s, "a secret\n"); again != hash {
		t.Errorf("kept again it is %s, not %s", again, hash)
	}
	keep(t, s, "")
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 2 {
		t.Errorf("there are %v (%v), not two objects", entries, err)
	}
}

// Whoever keeps an object may be another than those who are to read it.
func TestWhatIsMadeIsGivenToItsUsersBeforeItHasItsName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "objects")
	var given []string
	s := objects.In(dir, func(f *os.File, made bool) {
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
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
	if !slices.Equal(given, want) {
		t.Errorf("given are %q, want %q", given, want)
	}
}

func TestAStoreMayBeALink(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "objects")
	if err := os.Symlink(t.TempDir(), dir); err != nil {
		t.Fatal(err)
	}
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
		if err := alter(); err != nil {
			t.Fatal(what, err)
		}
		refused(t, s, hash, objects.ErrAltered)
		keep(t, s, "content")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	refused(t, s, hash, objects.ErrMissing)
	keep(t, s, "content")
}

func TestWhatIsNoHashNamesNoFile(t *testing.T) {
	dir := t.TempDir()
	s := objects.In(dir, nil)
	hash := keep(t, s, "content")
	for _, bad := range []string{"", hash[:10], strings.ToUpper(hash), "../sha256/" + hash, filepath.Join(dir, "sha256", hash), hash + "\n"} {
		if got, err := s.Load(bad); err == nil || !strings.Contains(err.Error(), "SHA-256") {
			t.Errorf("%q is %q, %v", bad, got, err)
		}
	}
}

func TestWhatCannotBeKeptIsNotThere(t *testing.T) {
	dir := t.TempDir()
	if _, err := objects.In(dir, nil).Keep(make([]byte, 16<<20+1)); err == nil || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("of what is too large is said %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := objects.In(filepath.Join(dir, "file"), nil).Keep([]byte("x")); err == nil {
		t.Error("it was kept below a file")
	}
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
