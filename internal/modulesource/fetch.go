package modulesource

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/deployster-go/deployster/internal/artifacts"
)

// Pin is what a source means.
type Pin struct {
	Commit string // of a repository
	Digest string // of the files, as an artifact: sha256:HEX
}

// limits bound a module; a repository may be larger, see mostPack.
var limits = artifacts.Limits{Files: 10_000, Bytes: 128 << 20}

// fetchTime is how long fetching a module may take.
const fetchTime = 5 * time.Minute

// Cache has the files of modules, in a directory that nobody else can write to.
type Cache struct {
	dir   string
	store *artifacts.Store
}

// In is the cache in a directory, which is made when it is needed.
func In(dir string) *Cache { return &Cache{dir, artifacts.In(dir)} }

// Resolve finds out what a source means now, and fetches that.
func (c *Cache) Resolve(ctx context.Context, s Source) (Pin, error) {
	pin, err := c.fetch(ctx, s, "")
	if err != nil {
		return Pin{}, fmt.Errorf("fetching module %s: %w", s, err)
	}
	return pin, nil
}

// Directory is where the files of a module are, which nobody may change: those of the pin, which are fetched
// where the cache does not have them. Files that were altered in the cache are fetched anew.
func (c *Cache) Directory(ctx context.Context, s Source, pin Pin) (string, error) {
	dir, err := c.store.Directory(ctx, pin.Digest)
	if errors.Is(err, artifacts.ErrAltered) {
		if err := c.store.Remove(ctx, pin.Digest); err != nil {
			return "", fmt.Errorf("module %s: its files in the cache were altered: %w", s, err)
		}
	}
	if errors.Is(err, artifacts.ErrMissing) || errors.Is(err, artifacts.ErrAltered) {
		var now Pin
		now, err = c.fetch(ctx, s.pinned(pin), pin.Commit)
		if err == nil && now != pin {
			err = fmt.Errorf("its files have the digest %s, and those that are locked %s: do not use it before you know why; \"deployster lock --upgrade\" takes what there is now", now.Digest, pin.Digest)
		}
		if err == nil {
			dir, err = c.store.Directory(ctx, pin.Digest)
		}
	}
	if err != nil {
		return "", fmt.Errorf("module %s: %w", s, err)
	}
	if s.artifact == "" || s.dir == "" {
		return dir, nil
	}
	below := filepath.Join(dir, filepath.FromSlash(s.dir))
	if info, err := os.Lstat(below); err != nil || !info.IsDir() {
		return "", fmt.Errorf("module %s: there is no directory %q in it", s, s.dir)
	}
	return below, nil
}

// pinned is the source by its content.
func (s Source) pinned(pin Pin) Source {
	if s.artifact == "" {
		return s
	}
	name, _, _ := strings.Cut(s.artifact, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	s.artifact = name + "@" + pin.Digest
	return s
}

// fetch fetches a module into the cache; commit is that of a repository, "" what its ref means.
func (c *Cache) fetch(ctx context.Context, s Source, commit string) (Pin, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTime, fmt.Errorf("it took longer than %s", fetchTime))
	defer cancel()
	pin := Pin{}
	var err error
	if s.artifact != "" {
		var got artifacts.Artifact
		got, err = c.store.Pull(ctx, s.artifact, limits, nil)
		pin.Digest = got.Digest
	} else {
		pin, err = c.clone(ctx, s, commit)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return pin, err
}

// clone makes an artifact of the directory of a commit.
func (c *Cache) clone(ctx context.Context, s Source, commit string) (pin Pin, err error) {
	work, err := os.MkdirTemp("", "deployster-module-")
	if err != nil {
		return pin, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	g, err := newGit(filepath.Join(work, "repository"))
	if err != nil {
		return pin, err
	}
	if pin.Commit, err = g.fetch(ctx, s, commit); err != nil {
		return pin, err
	}
	files := filepath.Join(work, "files")
	if err := os.Mkdir(files, 0o700); err != nil {
		return pin, err
	}
	if err := g.export(ctx, pin.Commit, s.dir, files); err != nil {
		return pin, err
	}
	made, err := c.store.Collect(ctx, files, limits)
	pin.Digest = made.Digest
	return pin, err
}

// Push puts a directory into a registry as a module, under REGISTRY/REPOSITORY:TAG, and returns it by its
// digest there.
func Push(ctx context.Context, dir string, to Source) (string, error) {
	name, tag := to.artifact, ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name, tag = name[:i], name[i+1:]
	}
	if to.artifact == "" || tag == "" || to.dir != "" || strings.Contains(to.artifact, "@") {
		return "", fmt.Errorf("pushing module %s: the name of a module in a registry is oci://REGISTRY/REPOSITORY:TAG", dir)
	}
	work, err := os.MkdirTemp("", "deployster-module-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work) //nolint:errcheck // at worst it stays
	store := artifacts.In(filepath.Join(work, "store"))
	made, err := store.Collect(ctx, dir, limits)
	if err != nil {
		return "", fmt.Errorf("pushing module %s: %w", dir, err)
	}
	ref, err := store.Push(ctx, made.Digest, name, tag, nil)
	if err != nil {
		return "", fmt.Errorf("pushing module %s: %w", dir, err)
	}
	return "oci://" + ref, nil
}
