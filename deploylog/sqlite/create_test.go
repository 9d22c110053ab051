package sqlite

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
)

// TestLinkToLog opens one log by its own name and through links to it and to
// its directory.
func TestLinkToLog(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "real", "log.db")
	l := openLog(t, path)
	byFile, byDir := filepath.Join(dir, "link.db"), filepath.Join(dir, "linked")
	if err := errors.Join(os.Symlink(path, byFile), os.Symlink("real", byDir)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{byFile, filepath.Join(byDir, "log.db")} {
		linked := openLog(t, name)
		unlock, err := l.TryLock("host/a")
		if err != nil {
			t.Fatal(err)
		}
		_, err = linked.TryLock("host/a")
		wantError(t, err, deploylog.ErrLocked)
		unlock()
		if linked.ID() != l.ID() {
			t.Errorf("%s: log %s, want %s", name, linked.ID(), l.ID())
		}
	}
	if _, err := os.Lstat(byFile + ".locks"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("locks beside the link: %v", err)
	}
}

// TestLinkToDamagedLog lets a crash leave a damaged write-ahead log, which lies
// beside the log and not beside the link.
func TestLinkToDamagedLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	l := openLog(t, path)
	for i := range 20 {
		if _, err := l.Append(t.Context(), sample(i)); err != nil {
			t.Fatal(err)
		}
	}
	crashed, name := filepath.Join(t.TempDir(), "log.db"), filepath.Join(t.TempDir(), "link.db")
	wal := bytes.Clone(read(t, path+"-wal"))
	wal[len(wal)/2] ^= 4
	write(t, crashed, read(t, path))
	write(t, crashed+"-wal", wal)
	if err := os.Symlink(crashed, name); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), name, Options{})
	wantError(t, err, deploylog.ErrCorrupt, "log.db-wal is damaged", "backup")
}

func TestDanglingLink(t *testing.T) {
	dir := t.TempDir()
	path, name := filepath.Join(dir, "log.db"), filepath.Join(dir, "link.db")
	if err := os.Symlink(path, name); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), name, Options{})
	wantError(t, err, nil, name, "a link to "+path+", which does not exist", "remove the link")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v: only the link should be there", entries, err)
	}
}

func TestNewDirectoriesAreDurable(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name string
		dir  string
		want []string
	}{
		{"none is new", "", nil},
		{"one is new", "a", []string{""}},
		{"two more are new", "a/b/c", []string{"a/b", "a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var synced, want []string
			for _, d := range c.want {
				want = append(want, filepath.Join(dir, d))
			}
			err := makeDir(filepath.Join(dir, c.dir), func(d string) error {
				if info, err := os.Stat(filepath.Join(dir, c.dir)); err != nil || !info.IsDir() {
					t.Errorf("%s is synced before it has its entry: %v", d, err)
				}
				synced = append(synced, d)
				return nil
			})
			if err != nil || !slices.Equal(synced, want) {
				t.Errorf("synced %q, %v; want %q", synced, err, want)
			}
		})
	}
	failed := errors.New("the disk is gone")
	if err := makeDir(filepath.Join(dir, "x"), func(string) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("error %v, want %v", err, failed)
	}
}

// TestPlaceWithoutHardLinks stands for file systems that have none.
func TestPlaceWithoutHardLinks(t *testing.T) {
	for _, refusal := range []error{syscall.EPERM, syscall.ENOTSUP, syscall.EOPNOTSUPP} {
		noLinks := func(file, name string) error {
			return &os.LinkError{Op: "link", Old: file, New: name, Err: refusal}
		}
		dir := t.TempDir()
		first, second, name := filepath.Join(dir, "1"), filepath.Join(dir, "2"), filepath.Join(dir, "log.db")
		write(t, first, []byte("first"))
		write(t, second, []byte("second"))
		if err := place(first, name, noLinks); err != nil {
			t.Errorf("%v: %v", refusal, err)
		}
		if err := place(second, name, noLinks); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%v: error %v for a taken name", refusal, err)
		}
		if got := string(read(t, name)); got != "first" {
			t.Errorf("%v: %q is in place", refusal, got)
		}
	}
	broken := func(string, string) error { return syscall.EIO }
	if err := place("1", "2", broken); !errors.Is(err, syscall.EIO) {
		t.Errorf("error %v, want another one as it is", err)
	}
}

// TestWriteAheadLogStaysSmall lets many logs come, append and go, as the runs
// of a program do, while another one stays open.
func TestWriteAheadLogStaysSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	_ = openLog(t, path)
	largest := int64(0)
	const runs = 60
	for i := range runs {
		l, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(t.Context(), sample(i)); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, info.Size())
	}
	if limit := int64(20 * pageSize); largest > limit {
		t.Errorf("the write-ahead log grew to %d bytes in %d runs, want at most %d", largest, runs, limit)
	}
}
