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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/locked"
	"github.com/deployster-go/deployster/internal/filelock"
	"github.com/deployster-go/deployster/internal/lockfile"
	"github.com/deployster-go/deployster/internal/modulesource"
	"github.com/deployster-go/deployster/internal/ringtest"
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
		require.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
	}
	require.NoError(t, os.Symlink("files/one", filepath.Join(repository, "link")))
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "all"}} {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", repository}, args...)...).CombinedOutput()
		require.NoError(t, err, "git: %s", out)
	}
	m := &modules{workspace: t.TempDir(), source: "git::file://" + repository, cache: modulesource.In(t.TempDir())}
	m.lock = &lockfile.File{Images: map[string]lockfile.Image{}, Modules: map[string]lockfile.Module{}}
	u := &locked.Update{Lock: m.lock, Upgrade: func(string) bool { return false }}
	_, err := u.Module(t.Context(), m.cache, m.source)
	require.NoError(t, err)
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
			assert.NoError(t, m.place(t.Context()))
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
	require.NoError(t, errors.Join(os.MkdirAll(m.at("new-1", "files"), 0o700), os.WriteFile(m.at()+".lock", nil, 0o600)))
	other, err := filelock.Acquire(t.Context(), m.at()+".lock", filelock.Exclusive)
	require.NoError(t, err)
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if err := m.place(ctx); !errors.Is(err, enough) || !strings.Contains(err.Error(), "waiting for the lock") {
		t.Errorf("with a module to place, it does not wait for the other process: %v", err)
	}
	locks := m.lock.Modules
	m.lock.Modules = nil
	assert.NoError(t, m.place(t.Context()), "with none to place")
	_, err = os.Stat(m.at("new-1", "files"))
	assert.NoError(t, err, "what the other process makes is gone")

	other.Release() // it has died, and left that
	m.lock.Modules = locks
	require.NoError(t, m.place(t.Context()))
	_, err = os.Stat(m.at("new-1"))
	assert.ErrorIs(t, err, os.ErrNotExist, "what nobody makes any more")
}

func TestWhoeverReadsAModuleWhileItIsReplacedFindsOne(t *testing.T) {
	m := newModules(t)
	require.NoError(t, m.place(t.Context()))
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
	for range ringtest.Cases(30, 300) {
		require.NoError(t, errors.Join(os.WriteFile(m.placed("files", "one"), []byte("x"), 0o600), m.place(t.Context())))
	}
	close(ended)
	reader.Wait()
	require.NoError(t, m.place(t.Context()))
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
			require.NoError(t, m.place(t.Context()))
			require.NoError(t, do(m))
			require.NoError(t, m.place(t.Context()))
			text, err := os.ReadFile(m.placed("files", "two", "deep"))
			if one, failed := os.ReadFile(m.placed("link")); err != nil || failed != nil || string(one) != "1" || len(text) != 100_000 {
				t.Errorf("it has %q, %v, and %d bytes, %v", one, failed, len(text), err)
			}
			_, err = os.Lstat(m.placed("files", "two", "more"))
			assert.ErrorIs(t, err, os.ErrNotExist, "what was added")
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
	assert.ErrorContains(t, m.place(t.Context()), "is a link", "it is placed")
	_, err := os.Stat(filepath.Join(elsewhere, "precious"))
	assert.NoError(t, err)
}
