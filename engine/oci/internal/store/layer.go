//go:build linux

package store

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/internal/atomicfile"
	"github.com/deployster-go/deployster/internal/crash"
)

// parallel is how many layers are fetched and unpacked at once.
const parallel = 4

// incoming is an image on its way into the store.
type incoming struct {
	subject string // what the user calls it
	id      v1.Hash
	config  []byte
	digest  string   // in a registry; "" if it comes from none
	names   []string // keys of the index
	layers  []layer  // lowest first, as the configuration lists them
}

// layer is a layer on its way into the store.
type layer struct {
	diffID v1.Hash // of its tar
	digest v1.Hash // of the tar as it is delivered, often compressed; zero if that has none
	size   int64   // as it is delivered
	open   func(context.Context) (io.ReadCloser, error)
}

// add unpacks the layers of images and enters the images into the index, all or
// none. seen receives the bytes of delivered layers.
func (s *Store) add(ctx context.Context, in *workspace, images []incoming, seen func(n int64)) ([]Image, error) {
	held, err := s.unpackAll(ctx, in, images, seen)
	defer func() {
		for _, lock := range held {
			lock.release()
		}
	}()
	if err != nil {
		return nil, err
	}
	sizes, err := s.sizes(images)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.SyncDir(s.layersDir()); err != nil {
		return nil, err
	}
	var after *index
	err = s.change(ctx, func(index *index) error {
		after = index
		for _, image := range images {
			if err := s.enter(index, image, sizes); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	added := make([]Image, len(images))
	for i, image := range images {
		if added[i], err = s.image(after, image.id); err != nil {
			return nil, err
		}
	}
	return added, nil
}

// enter puts an image into the index, and its configuration beside it.
func (s *Store) enter(index *index, image incoming, sizes map[v1.Hash]int64) error {
	if err := replaceFile(s.configFile(image.id), image.config); err != nil {
		return err
	}
	// The image may be in use, so its lock is only touched.
	if err := touch(s.imageLock(image.id)); err != nil {
		return err
	}
	entry := entry{Digest: image.digest, Layers: s.visible(image.layers)}
	if entry.Digest == "" {
		entry.Digest = index.Images[image.id].Digest
	}
	index.Images[image.id] = entry
	for _, name := range image.names {
		index.Names[name] = image.id
	}
	for _, layer := range entry.Layers {
		index.Layers[layer] = sizes[layer]
	}
	return nil
}

// visible lists layers topmost first, as an overlay takes them: it refuses one
// that comes twice, and of two the upper hides the lower; and it would not
// notice a layer whose root directory hides all below.
func (s *Store) visible(layers []layer) []v1.Hash {
	visible := []v1.Hash{}
	for _, layer := range slices.Backward(layers) {
		if slices.Contains(visible, layer.diffID) {
			continue
		}
		visible = append(visible, layer.diffID)
		if isOpaque(s.layerDir(layer.diffID), s.rootless) {
			break
		}
	}
	return visible
}

// touch makes a file or sets its time to now.
func touch(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(unix.Utimes(path, nil), file.Close())
}

// sizes measures the layers of images.
func (s *Store) sizes(images []incoming) (map[v1.Hash]int64, error) {
	index, err := s.index()
	if err != nil {
		return nil, err
	}
	sizes := map[v1.Hash]int64{}
	for _, image := range images {
		for _, layer := range image.layers {
			if _, done := sizes[layer.diffID]; done {
				continue
			}
			size, known := index.Layers[layer.diffID]
			if !known {
				if size, err = sizeOf(s.layerDir(layer.diffID)); err != nil {
					return nil, err
				}
			}
			sizes[layer.diffID] = size
		}
	}
	return sizes, nil
}

// unpackAll sees to it that all layers of the images are there, and holds them
// by the locks that it returns, also with an error.
func (s *Store) unpackAll(ctx context.Context, in *workspace, images []incoming, seen func(n int64)) ([]*lock, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	var mutex sync.Mutex
	var held []*lock
	begun := map[v1.Hash]bool{}
	for _, image := range images {
		for _, layer := range image.layers {
			if begun[layer.diffID] {
				continue
			}
			begun[layer.diffID] = true
			group.Go(func() (err error) {
				defer crash.Catch(&err, "unpacking a layer")
				lock, err := s.layer(ctx, in, layer, seen)
				if err != nil {
					return fmt.Errorf("unpack layer %s of image %s: %w", layer.name(), image.subject, err)
				}
				mutex.Lock()
				defer mutex.Unlock()
				held = append(held, lock)
				return nil
			})
		}
	}
	err := group.Wait()
	return held, err
}

// layer returns the lock that keeps a layer from being removed, and unpacks it
// first if nobody else has. Whoever calls it may hold other layers, so it never
// waits for the exclusive lock: of two that load one image, each could wait for
// a layer that the other holds. What it wants is the layer, by whomever.
func (s *Store) layer(ctx context.Context, in *workspace, layer layer, seen func(n int64)) (*lock, error) {
	dir, path := s.layerDir(layer.diffID), s.layerLock(layer.diffID)
	hold := func() (*lock, error) {
		held, err := try(path, shared)
		if held == nil || exists(dir) {
			return held, err
		}
		held.release()
		return nil, nil
	}
	unpacked := false
	held, err := retry(ctx, path, func() (*lock, error) {
		if held, err := hold(); held != nil || err != nil {
			return held, err
		}
		own, err := try(path, exclusive)
		if own == nil {
			return nil, err
		}
		if !exists(dir) {
			unpacked = true
			err = s.publish(ctx, in, layer, seen)
		}
		own.release()
		if err != nil {
			return nil, err
		}
		return hold()
	})
	if held != nil && !unpacked {
		seen(layer.size)
	}
	return held, err
}

// publish unpacks a layer aside and renames it into its place. Everything in it
// is on the disk before it has its name, so that a layer that has one is whole.
func (s *Store) publish(ctx context.Context, in *workspace, layer layer, seen func(n int64)) (err error) {
	dir := in.path("layer-" + layer.diffID.Hex)
	if err := makeDir(dir); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if err := s.deliver(ctx, dir, layer, seen); err != nil {
		return err
	}
	if err := syncFileSystem(dir); err != nil {
		return err
	}
	return os.Rename(dir, s.layerDir(layer.diffID))
}

// syncFileSystem makes everything durable that was written to the file system
// of a directory. For more than a few files it is much faster than asking for
// each.
func syncFileSystem(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return &fs.PathError{Op: "sync", Path: path, Err: err}
	}
	return nil
}

// deliver unpacks a layer into a directory and compares its digests.
func (s *Store) deliver(ctx context.Context, dir string, layer layer, seen func(n int64)) error {
	source, err := layer.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	delivered := &digester{r: &countingReader{r: source, seen: seen}, hash: sha256.New()}
	plain, err := decompress(delivered)
	if err != nil {
		return layer.reason(err, delivered, nil)
	}
	defer func() { _ = plain.Close() }()
	content := &digester{r: plain, hash: sha256.New()}
	err = unpack(ctx, dir, content, s.rootless, layerLimits)
	if err != nil && (ctx.Err() != nil || isLocal(err)) {
		return err
	}
	return layer.reason(err, delivered, content)
}

// reason reports why a layer cannot be used, or nil if it can. err is what was
// wrong with its content; a wrong digest is the better reason.
func (l layer) reason(err error, delivered, content *digester) error {
	digests := l.compare(delivered, content)
	switch {
	case err == nil || errors.Is(digests, errDamaged):
		return digests
	case digests == nil && l.digest != (v1.Hash{}):
		return fmt.Errorf("%w; its digest is right, so the image was built like that: use another one", err)
	default:
		return err
	}
}

// name is the digest that people find in the image's manifest, if there is one.
func (l layer) name() v1.Hash {
	if l.digest != (v1.Hash{}) {
		return l.digest
	}
	return l.diffID
}

// errDamaged is the error of content that does not match its digest.
var errDamaged = errors.New("it is damaged: fetch or save the image again")

// compare reads to the end, because what follows the end of a tar belongs to the
// digests too, and checks them. content is nil if it could not be read at all.
func (l layer) compare(delivered, content *digester) error {
	if content != nil {
		if err := content.drain(); err != nil {
			content = nil
		}
	}
	err := delivered.drain()
	if (err == nil || delivered.n >= l.size) && l.digest != (v1.Hash{}) && l.digest != delivered.sum() {
		return fmt.Errorf("%w: its digest is %s", errDamaged, delivered.sum())
	}
	if err == nil && content != nil && content.sum() != l.diffID {
		return fmt.Errorf("%w: unpacked, its digest is %s instead of %s", errDamaged, content.sum(), l.diffID)
	}
	return err
}

// isLocal reports whether an error comes from writing to this machine's disk.
func isLocal(err error) bool {
	var path *fs.PathError
	var link *os.LinkError
	return errors.As(err, &path) || errors.As(err, &link)
}

// digester computes the digest of what is read through it.
type digester struct {
	r    io.Reader
	n    int64
	hash hash.Hash
}

func (d *digester) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	d.n += int64(n)
	d.hash.Write(p[:n])
	return n, err
}

// drain reads to the end.
func (d *digester) drain() error {
	_, err := io.Copy(io.Discard, &boundedReader{r: d, limit: layerLimits, done: d.n})
	return err
}

func (d *digester) sum() v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(d.hash.Sum(nil))}
}

// maxWindow bounds the memory that a zstd stream may ask for.
const maxWindow = 128 << 20

// decompress reads what may be compressed with gzip or zstd.
func decompress(r io.Reader) (io.ReadCloser, error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	start, err := buffered.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(start, []byte{0x1f, 0x8b}):
		return gzip.NewReader(buffered)
	case bytes.HasPrefix(start, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		plain, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return plain.IOReadCloser(), nil
	default:
		return io.NopCloser(buffered), nil
	}
}
