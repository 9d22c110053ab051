//go:build linux

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/deployster-go/deployster/internal/crash"
)

// Load takes over the images of a tar as `docker save` makes it, or of an OCI
// layout in a tar, which may be compressed with gzip or zstd. progress, which
// may be nil, receives how many bytes of r were read. If anything is wrong with
// any image, none is taken over. A cancelled context ends it also while r
// blocks; that Read then ends by itself.
func (s *Store) Load(ctx context.Context, r io.Reader, progress func(done int64)) ([]Image, error) {
	images, err := s.load(ctx, r, counter(progress))
	if err != nil {
		return nil, fmt.Errorf("load images: %w", err)
	}
	return images, nil
}

// LoadPath is Load for a file, or for a directory that is an OCI layout or an
// unpacked tar of `docker save`. For a directory, progress is told how many
// bytes of its layers were read.
func (s *Store) LoadPath(ctx context.Context, path string, progress func(done int64)) ([]Image, error) {
	images, err := s.loadPath(ctx, path, progress)
	if err != nil {
		return nil, fmt.Errorf("load images of %s: %w", path, err)
	}
	return images, nil
}

func (s *Store) loadPath(ctx context.Context, path string, progress func(done int64)) ([]Image, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		root, err := os.OpenRoot(path) // links in it do not lead out of it
		if err != nil {
			return nil, err
		}
		defer func() { _ = root.Close() }()
		in, err := s.newWorkspace()
		if err != nil {
			return nil, err
		}
		images, err := s.loadFiles(ctx, in, files{root.FS()}, counter(progress))
		return images, errors.Join(err, in.remove())
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is neither a file nor a directory")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return s.load(ctx, file, counter(progress))
}

func (s *Store) load(ctx context.Context, r io.Reader, seen func(n int64)) (images []Image, err error) {
	in, err := s.newWorkspace()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.remove()) }()

	// A pipe in between can be closed, which r cannot.
	interruptible, feed := io.Pipe()
	go func() {
		err := crash.Do("reading an archive of images", func() error {
			_, err := io.Copy(feed, r)
			return err
		})
		_ = feed.CloseWithError(err)
	}()
	stop := context.AfterFunc(ctx, func() { _ = feed.CloseWithError(context.Cause(ctx)) })
	defer stop()
	defer func() { _ = interruptible.Close() }()

	files, err := extract(in, &countingReader{r: interruptible, seen: seen}, archiveLimits)
	if err != nil {
		return nil, err
	}
	return s.loadFiles(ctx, in, files, func(int64) {})
}

// loadFiles takes over all images of some files.
func (s *Store) loadFiles(ctx context.Context, in *workspace, from files, seen func(n int64)) ([]Image, error) {
	images, err := from.images(ctx, s.platform)
	if err != nil {
		return nil, err
	}
	added, err := s.add(ctx, in, images, seen)
	if err != nil {
		return nil, errors.Join(err, s.discard(ctx, in, images))
	}
	return added, nil
}

// discard removes the layers of images that could not be loaded, unless others
// need them: they serve no further attempt.
func (s *Store) discard(ctx context.Context, out *workspace, images []incoming) error {
	ctx = context.WithoutCancel(ctx)
	theirs := map[v1.Hash]bool{}
	for _, image := range images {
		for _, layer := range image.layers {
			theirs[layer.diffID] = true
		}
	}
	held, err := acquire(ctx, s.indexLock(), exclusive)
	if err != nil {
		return err
	}
	defer held.release()
	if _, err := s.dropLayers(ctx, out, theirs); err != nil {
		return err
	}
	return s.dropFiles()
}

// counter returns what adds up for a progress function, from any goroutine.
func counter(progress func(done int64)) func(n int64) {
	if progress == nil {
		return func(int64) {}
	}
	var mutex sync.Mutex
	var done int64
	return func(n int64) {
		if n == 0 {
			return
		}
		mutex.Lock()
		defer mutex.Unlock()
		done += n
		progress(done)
	}
}

// countingReader tells how much is read through it.
type countingReader struct {
	r    io.Reader
	seen func(n int64)
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.seen(int64(n))
	return n, err
}
