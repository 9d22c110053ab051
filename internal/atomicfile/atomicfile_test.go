package atomicfile_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/deployster-go/deployster/internal/atomicfile"
)

// wantFile compares the only file of a directory.
func wantFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s holds %q (%v), want %q", path, got, err, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%s has the mode %v (%v), want that of a file for its owner only", path, info.Mode(), err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("beside it are %v (%v)", entries, err)
	}
}

func TestAFileIsReplacedAsAWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"one", "another, which is longer", ""} {
		if err := atomicfile.WriteFile(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		wantFile(t, path, content)
	}
}

func TestAFileIsInItsPlaceOnlyOnceItIsCommitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := atomicfile.WriteFile(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	write := func() *atomicfile.File {
		f, err := atomicfile.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("new"); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
			t.Errorf("before it is committed there is %q, %v", got, err)
		}
		return f
	}
	write().Discard()
	wantFile(t, path, "old")

	f := write()
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	f.Discard() // as it was deferred
	wantFile(t, path, "new")
}

func TestWhatCannotBeWrittenLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := atomicfile.WriteFile(filepath.Join(dir, "none", "file"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
	if err := atomicfile.SyncDir(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
	// The file system of processes is one that cannot make its directories durable.
	if err := atomicfile.SyncDir("/proc/self"); err != nil {
		t.Errorf("where the file system knows no such thing: %v", err)
	}
	failed := errors.New("no more")
	err := atomicfile.Write(filepath.Join(dir, "file"), func(w io.Writer) error {
		if _, err := w.Write([]byte("half")); err != nil {
			t.Error(err)
		}
		return failed
	})
	if err != failed { //nolint:errorlint // the very same
		t.Errorf("of a content that fails: %v", err)
	}
	taken := filepath.Join(dir, "taken")
	if err := os.Mkdir(taken, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.WriteFile(taken, []byte("x")); err == nil {
		t.Error("a directory was replaced")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left are %v (%v)", entries, err)
	}
}
