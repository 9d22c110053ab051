package locked_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/deployster-go/deployster/control/locked"
	"github.com/deployster-go/deployster/internal/filelock"
	"github.com/deployster-go/deployster/internal/lockfile"
	"github.com/deployster-go/deployster/internal/modulesource"
	"github.com/deployster-go/deployster/manifest"
)

// modules is a workspace with a module of a repository that is locked.
type modules struct {
	workspace, source string
	lock              *lockfile.File
	cache             *modulesource.Cache
}

func newModules(t *testing.T) *modules {
	t.Helper()
	repository := t.TempDir()
	for name, text := range map[string]string{"module.yaml": "outputs: {a: b}\n", "files/one": "1", "files/two/deep": strings.Repeat("2", 100_000)} {
		path := filepath.Join(repository, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("files/one", filepath.Join(repository, "link")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "all"}} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", repository}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %s", args, out)
		}
	}
	m := &modules{workspace: t.TempDir(), source: "git::file://" + repository, cache: modulesource.In(t.TempDir())}
	m.lock = &lockfile.File{Images: map[string]lockfile.Image{}, Modules: map[string]lockfile.Module{}}
	u := &locked.Update{Lock: m.lock, Upgrade: func(string) bool { return false }}
	if _, err := u.Module(t.Context(), m.cache, m.source); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *modules) place(ctx context.Context) error {
	return locked.Place(ctx, m.workspace, m.lock, func() (*modulesource.Cache, error) { return m.cache, nil })
}

// at is what is at a path below the directory of the modules.
func (m *modules) at(path ...string) string {
	return filepath.Join(append([]string{m.workspace, filepath.FromSlash(manifest.RemoteModules)}, path...)...)
}

func (m *modules) placed(path ...string) string {
	return m.at(append([]string{filepath.Base(manifest.RemoteDir(m.source))}, path...)...)
}

func TestProcessesThatPlaceTheSameModulesTakeTurns(t *testing.T) {
	m := newModules(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := m.place(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if found, err := os.ReadDir(m.at()); err != nil || len(found) != 1 {
		t.Errorf("there are %v, %v", found, err)
	}
	if text, err := os.ReadFile(m.placed("link")); err != nil || string(text) != "1" {
		t.Errorf("it has %q, %v", text, err)
	}
}

func TestWhatAnotherProcessPlacesJustNowStays(t *testing.T) {
	m := newModules(t)
	if err := errors.Join(os.MkdirAll(m.at("new-1", "files"), 0o700), os.WriteFile(m.at()+".lock", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	other, err := filelock.Acquire(t.Context(), m.at()+".lock", filelock.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if err := m.place(ctx); !errors.Is(err, enough) || !strings.Contains(err.Error(), "waiting for the lock") {
		t.Errorf("with a module to place, it does not wait for the other process: %v", err)
	}
	locks := m.lock.Modules
	m.lock.Modules = nil
	if err := m.place(t.Context()); err != nil {
		t.Errorf("with none to place: %v", err)
	}
	if _, err := os.Stat(m.at("new-1", "files")); err != nil {
		t.Errorf("what the other process makes is gone: %v", err)
	}

	other.Release() // it has died, and left that
	m.lock.Modules = locks
	if err := m.place(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(m.at("new-1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what nobody makes any more: %v", err)
	}
}

func TestWhoeverReadsAModuleWhileItIsReplacedFindsOne(t *testing.T) {
	m := newModules(t)
	if err := m.place(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			if text, err := os.ReadFile(m.placed("module.yaml")); err != nil || len(text) == 0 {
				t.Errorf("it has %q, %v", text, err)
				return
			}
			select {
			case <-ended:
				return
			default:
			}
		}
	})
	for range 100 {
		if err := errors.Join(os.WriteFile(m.placed("files", "one"), []byte("x"), 0o600), m.place(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	close(ended)
	reader.Wait()
	if err := m.place(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(m.at()); err != nil || len(left) != 1 {
		t.Errorf("there are %v, %v", left, err)
	}
}

func TestAModuleIsPlacedAnewWhateverWasDoneToIt(t *testing.T) {
	m := newModules(t)
	for name, do := range map[string]func(m *modules) error{
		"another content":  func(m *modules) error { return os.WriteFile(m.placed("files", "one"), []byte("x"), 0o600) },
		"less at the end":  func(m *modules) error { return os.Truncate(m.placed("files", "two", "deep"), 99_999) },
		"one more":         func(m *modules) error { return os.WriteFile(m.placed("files", "two", "more"), nil, 0o600) },
		"one less":         func(m *modules) error { return os.Remove(m.placed("files", "one")) },
		"another link":     func(m *modules) error { return relink("files/two/deep", m.placed("link")) },
		"a link for a dir": func(m *modules) error { return errors.Join(os.RemoveAll(m.placed()), os.Symlink("/", m.placed())) },
		"a FIFO": func(m *modules) error {
			return errors.Join(os.Remove(m.placed("files", "one")), syscall.Mkfifo(m.placed("files", "one"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := m.place(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := do(m); err != nil {
				t.Fatal(err)
			}
			if err := m.place(t.Context()); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(m.placed("files", "two", "deep"))
			if one, failed := os.ReadFile(m.placed("link")); err != nil || failed != nil || string(one) != "1" || len(text) != 100_000 {
				t.Errorf("it has %q, %v, and %d bytes, %v", one, failed, len(text), err)
			}
			if _, err := os.Lstat(m.placed("files", "two", "more")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("what was added: %v", err)
			}
		})
	}
}

func relink(target, path string) error {
	return errors.Join(os.Remove(path), os.Symlink(target, path))
}

func TestNothingIsRemovedBehindALink(t *testing.T) {
	m := newModules(t)
	elsewhere := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(elsewhere, "precious"), nil, 0o600), os.MkdirAll(filepath.Dir(m.at()), 0o700), os.Symlink(elsewhere, m.at())); err != nil {
		t.Fatal(err)
	}
	if err := m.place(t.Context()); err == nil || !strings.Contains(err.Error(), "is a link") {
		t.Errorf("it is placed: %v", err)
	}
	if _, err := os.Stat(filepath.Join(elsewhere, "precious")); err != nil {
		t.Error(err)
	}
}
