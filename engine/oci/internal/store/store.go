//go:build linux

// Package store holds images for an engine that has no daemon: a directory of
// unpacked layers, shared by every process of one user.
//
// A layer is unpacked once, when an image is pulled or loaded, into a directory
// that is named after the digest of its content; images that share layers share
// directories. What a registry or an archive delivered is not kept. Nothing in
// the store is changed in place: a layer, an image's configuration and the
// index of images are each prepared aside, made durable and renamed, in this
// order, so whoever looks sees a whole layer or none, also after a crash or a
// power cut. At worst a crash leaves layers that no image needs yet; pulling or
// loading the image again uses them, and Prune removes them.
//
// Processes agree by locks on files (flock), which the kernel releases with the
// process that held them:
//
//	index.json          names, images and the sizes of layers
//	images/HEX.json     the configuration of an image, as it was delivered
//	layers/sha256/HEX   an unpacked layer, fit to be a lower directory of an overlay
//	layers/empty        stands in for the layers of an image that has none
//	locks/index         held while the index is changed
//	locks/layer-HEX     exclusive while a layer is unpacked or removed; shared until its image is in the index
//	locks/image-HEX     shared by leases, exclusive for removal; its time is when the image was last used
//	tmp/NAME            what one pull or load works on, locked for as long as that lasts
package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/registryauth"
)

// Options say where a store is and whom it serves.
type Options struct {
	Dir      string         // absolute; made when missing, for its user only
	Platform v1.Platform    // GOOS and GOARCH that images must be for
	Rootless bool           // layers are for overlays in a user namespace and belong to the caller
	Keychain authn.Keychain // credentials of registries; nil: Docker's configuration file and its credential helpers
	Logger   *slog.Logger   // nil: silent
}

// Store is a directory of images. Its methods are safe for concurrent use, by
// any number of processes.
type Store struct {
	dir      string
	platform v1.Platform
	rootless bool
	keychain authn.Keychain
	logger   *slog.Logger

	mutex   sync.Mutex
	last    snapshot                   // the index as it was last read
	configs map[v1.Hash]*v1.ConfigFile // never changed once in here
}

// Image is an image in the store.
type Image struct {
	ID      string        // "sha256:…" of its configuration
	Digest  string        // "sha256:…" that its registry knows it by: of its index, if it has one, else of its manifest; "" if it never was in one
	Names   []string      // references it is known by, in their short form, sorted
	Size    int64         // bytes of the files in its unpacked layers, also of those that it shares
	Created time.Time     // as its configuration tells; zero if it does not
	Used    time.Time     // when a Rootfs was last taken, or it was pulled or loaded
	Config  v1.ConfigFile // empty if the store lost it
}

// Open opens the store in a directory, and removes what crashed processes left
// in it.
func Open(o Options) (*Store, error) {
	s := &Store{
		dir: o.Dir, platform: o.Platform, rootless: o.Rootless, keychain: o.Keychain, logger: o.Logger,
		configs: map[v1.Hash]*v1.ConfigFile{},
	}
	if s.keychain == nil {
		s.keychain = registryauth.Keychain{}
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("open image store %s: %w", o.Dir, err)
	}
	return s, nil
}

func (s *Store) open() error {
	if !filepath.IsAbs(s.dir) {
		return errors.New("its path must be absolute")
	}
	for _, below := range []string{"", "images", "layers", "layers/sha256", "locks", "tmp"} {
		dir := filepath.Join(s.dir, below)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := checkPrivate(dir); err != nil {
			return err
		}
	}
	if err := makeDir(s.emptyLayer()); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, err := s.index(); err != nil {
		return err
	}
	_, err := s.removeOrphans()
	return err
}

// checkPrivate refuses a directory that others may write to: what is in there
// they could have chosen, and it is run.
func checkPrivate(dir string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(dir, &stat); err != nil {
		return &fs.PathError{Op: "look at", Path: dir, Err: err}
	}
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is a link: remove it, or use the directory that it leads to", dir)
	case int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d and you are %d: run as its owner, or use a directory of your own", dir, stat.Uid, os.Geteuid())
	case stat.Mode&0o022 != 0:
		return fmt.Errorf("%s can be written to by others, who may have changed images: remove it and pull or load them again, or use another directory", dir)
	}
	return nil
}

// makeDir makes a directory that the users of a container may look into,
// whatever the umask.
func makeDir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return os.Chmod(path, 0o755) //nolint:gosec // it becomes the root directory of containers, and its parent is private
}

func (s *Store) indexFile() string            { return filepath.Join(s.dir, "index.json") }
func (s *Store) indexLock() string            { return filepath.Join(s.dir, "locks", "index") }
func (s *Store) configFile(id v1.Hash) string { return filepath.Join(s.dir, "images", id.Hex+".json") }
func (s *Store) imageLock(id v1.Hash) string  { return filepath.Join(s.dir, "locks", "image-"+id.Hex) }
func (s *Store) layerDir(id v1.Hash) string   { return filepath.Join(s.layersDir(), id.Hex) }
func (s *Store) layerLock(id v1.Hash) string  { return filepath.Join(s.dir, "locks", "layer-"+id.Hex) }
func (s *Store) layersDir() string            { return filepath.Join(s.dir, "layers", "sha256") }
func (s *Store) emptyLayer() string           { return filepath.Join(s.dir, "layers", "empty") }

// Find returns the image behind ref: NAME[:TAG], NAME@DIGEST, an id, or at
// least its first twelve digits. Names are understood as Docker does. It fails
// with engine.ErrNoImage if there is none, or not all of it is left.
func (s *Store) Find(ref string) (Image, error) {
	index, err := s.index()
	if err != nil {
		return Image{}, fmt.Errorf("find image %q: %w", ref, err)
	}
	id, err := index.find(ref)
	if err != nil {
		return Image{}, fmt.Errorf("image %q: %w", ref, err)
	}
	image, err := s.image(index, id)
	if err != nil {
		return Image{}, fmt.Errorf("image %q: %w", ref, err)
	}
	if _, err := s.layerDirs(index.Images[id].Layers); err != nil {
		return Image{}, fmt.Errorf("image %q: %w", ref, err)
	}
	return image, nil
}

// List returns all images, those used last first.
func (s *Store) List() ([]Image, error) {
	index, err := s.index()
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	return s.images(index), nil
}

// image tells what the store knows of an image in the index. What it knows
// without the configuration it tells also with an error.
func (s *Store) image(index *index, id v1.Hash) (Image, error) {
	entry := index.Images[id]
	image := Image{ID: id.String(), Digest: entry.Digest, Names: index.namesOf(id)}
	for _, layer := range entry.Layers {
		image.Size += index.Layers[layer]
	}
	if info, err := os.Stat(s.imageLock(id)); err == nil {
		image.Used = info.ModTime()
	}
	config, err := s.config(id)
	if err != nil {
		return image, err
	}
	image.Config, image.Created = *config.DeepCopy(), config.Created.Time
	return image, nil
}

// config returns the configuration of an image, which is read once.
func (s *Store) config(id v1.Hash) (*v1.ConfigFile, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if config := s.configs[id]; config != nil {
		return config, nil
	}
	raw, err := os.ReadFile(s.configFile(id))
	if engine.Exhausted(err) { // it may be there
		return nil, fmt.Errorf("read its configuration: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: its configuration is lost; pull or load it again: %w", engine.ErrNoImage, err)
	}
	if got := hashOf(raw); got != id {
		return nil, fmt.Errorf("%w: its configuration %s is damaged; pull or load it again", engine.ErrNoImage, s.configFile(id))
	}
	config, err := parseConfig(raw)
	if err != nil {
		return nil, err
	}
	s.configs[id] = config
	return config, nil
}

// layerDirs returns the directories of layers, in the same order.
func (s *Store) layerDirs(layers []v1.Hash) ([]string, error) {
	dirs := make([]string, len(layers))
	for i, layer := range layers {
		dirs[i] = s.layerDir(layer)
		if !exists(dirs[i]) {
			return nil, fmt.Errorf("%w: its layer %s is lost; pull or load it again", engine.ErrNoImage, layer)
		}
	}
	return dirs, nil
}

func exists(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir()
}
