package artifacts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/static"

	"github.com/deployster-go/deployster/internal/filelock"
	"github.com/deployster-go/deployster/internal/regularfile"
)

// Push puts an artifact into a repository of a registry, REGISTRY/REPOSITORY, and gives it a
// tag there unless that is "". It returns the name of it there: REGISTRY/REPOSITORY@DIGEST.
// What the registry has already is not sent again. progress may be nil; it is called from one
// goroutine at a time.
func (s *Store) Push(ctx context.Context, digest, repository, tag string, progress func(Progress)) (ref string, err error) {
	ref, err = s.push(ctx, digest, repository, tag, progress)
	if err != nil {
		return "", fmt.Errorf("pushing artifact %s to %s: %w", digest, repository, err)
	}
	return ref, nil
}

func (s *Store) push(ctx context.Context, digest, repository, tag string, progress func(Progress)) (string, error) {
	in, err := parseRepository(repository)
	if err != nil {
		return "", err
	}
	var tagged name.Tag
	if tag != "" {
		if tagged, err = name.NewTag(repository+":"+tag, name.StrictValidation); err != nil {
			return "", err
		}
	}
	layer, err := s.manifest(digest)
	if err != nil {
		return "", err
	}
	if err := s.locked(ctx, filelock.Shared, func() error { return s.renew(digest) }); err != nil {
		return "", unread("its manifest", err)
	}
	text, err := encodeManifest(layer)
	if err != nil {
		return "", err
	}
	to, err := open(in)
	if err != nil {
		return "", err
	}
	count := newCount(layer.Size, progress)
	count.add(0)
	for _, upload := range []func() error{
		func() error { return to.pusher.Upload(ctx, in, blobOf{s, layer, ctx, count.add}) },
		func() error { return to.pusher.Upload(ctx, in, static.NewLayer([]byte(emptyJSON), emptyType)) },
		func() error { return to.pusher.Put(ctx, in.Digest(digest), manifest(text)) },
		func() error {
			if tag == "" {
				return nil
			}
			return to.pusher.Put(ctx, tagged, manifest(text))
		},
	} {
		if err := upload(); err != nil {
			return "", to.explainRemote(ctx, err)
		}
	}
	count.all()
	return in.Name() + "@" + digest, nil
}

// Compressed opens the layer, and fails at its end where it was altered.
func (b blobOf) Compressed() (io.ReadCloser, error) {
	f, _, err := regularfile.OpenNoLink(b.store.blob(b.of.Digest.String()))
	if err != nil {
		return nil, unread("its layer", err)
	}
	return &checked{b, f, &source{ctx: b.ctx, r: f, left: b.of.Size, sum: sha256.New()}}, nil
}

// checked reads a layer.
type checked struct {
	of   blobOf
	file *os.File
	from *source
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.of.progress(int64(n))
	if c.from.left > 0 && errors.Is(err, io.EOF) {
		return n, c.from.end()
	}
	// The last bytes are not given away before all are known to be right: they are what
	// makes the layer whole.
	if c.from.left == 0 && n > 0 && hex.EncodeToString(c.from.sum.Sum(nil)) != c.of.of.Digest.Hex {
		return 0, fmt.Errorf("its layer %w", ErrAltered)
	}
	return n, err
}

func (c *checked) Close() error { return c.file.Close() }

// count tells how far something is.
type count struct {
	mutex    sync.Mutex
	is       Progress
	progress func(Progress)
}

func newCount(total int64, progress func(Progress)) *count {
	if progress == nil {
		progress = func(Progress) {}
	}
	return &count{is: Progress{Total: total}, progress: progress}
}

// add counts what was done; what is done again after a failure counts no more than once.
func (c *count) add(n int64) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.is.Done = min(c.is.Done+n, c.is.Total)
	c.progress(c.is)
}

func (c *count) all() { c.add(c.is.Total) }
