//go:build linux

package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/atomicfile"
)

// formatVersion is that of index.json and of everything else in the directory.
const formatVersion = 1

// index is what index.json holds. One that was read is never changed.
type index struct {
	Version  int                `json:"version"`
	Rootless bool               `json:"rootless"`         // what the layers were unpacked for
	Names    map[string]v1.Hash `json:"names"`            // HOST/PATH:TAG and HOST/PATH@DIGEST → id
	Images   map[v1.Hash]entry  `json:"images"`           // by id
	Layers   map[v1.Hash]int64  `json:"layers,omitempty"` // bytes of the files in each
}

// entry is one image in the index.
type entry struct {
	Digest string    `json:"digest,omitempty"`
	Layers []v1.Hash `json:"layers"` // topmost first; those that can be seen, each once
}

// snapshot is the index with the bytes that it was read from.
type snapshot struct {
	raw   []byte
	index *index
}

// index reads the index. The file is read each time, because any process may
// have replaced it, and parsed only if it differs.
func (s *Store) index() (*index, error) {
	raw, err := os.ReadFile(s.indexFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.last.index != nil && bytes.Equal(raw, s.last.raw) {
		return s.last.index, nil
	}
	read, err := s.parseIndex(raw)
	if err != nil {
		return nil, err
	}
	s.last = snapshot{raw: raw, index: read}
	return read, nil
}

func (s *Store) parseIndex(raw []byte) (*index, error) {
	read := &index{Version: formatVersion, Rootless: s.rootless}
	if raw != nil {
		if err := json.Unmarshal(raw, read); err != nil {
			return nil, fmt.Errorf("%s is damaged; delete it, and pull or load the images again: %w", s.indexFile(), err)
		}
	}
	if read.Version != formatVersion {
		return nil, fmt.Errorf("%s has version %d and this program knows %d: use the program that wrote it, or another directory", s.indexFile(), read.Version, formatVersion)
	}
	if read.Rootless != s.rootless {
		return nil, fmt.Errorf("%s says rootless is %t and now it is %t: their layers differ, so use another directory", s.indexFile(), read.Rootless, s.rootless)
	}
	return read, nil
}

// change lets f change the index, with no other process doing so, and writes
// it. If f fails, nothing is written.
func (s *Store) change(ctx context.Context, f func(*index) error) error {
	held, err := acquire(ctx, s.indexLock(), exclusive)
	if err != nil {
		return err
	}
	defer held.release()
	return s.changeLocked(f)
}

// changeLocked is change for who holds the lock of the index.
func (s *Store) changeLocked(f func(*index) error) error {
	before, err := s.index()
	if err != nil {
		return err
	}
	after := &index{
		Version: formatVersion, Rootless: s.rootless,
		Names: orMade(maps.Clone(before.Names)), Images: orMade(maps.Clone(before.Images)), Layers: orMade(maps.Clone(before.Layers)),
	}
	if err := f(after); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(after, "", "\t")
	if err != nil {
		return err
	}
	return replaceFile(s.indexFile(), raw)
}

func orMade[M ~map[K]V, K comparable, V any](m M) M {
	if m == nil {
		return M{}
	}
	return m
}

// replaceFile makes a file durable under another name and renames it. The
// caller sees to it that nobody else replaces the same file.
func replaceFile(path string, content []byte) error {
	prepared := path + ".new"
	file, err := os.OpenFile(prepared, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(prepared, path); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(path))
}

// find resolves a reference. A name comes before an id that looks the same.
func (i *index) find(ref string) (v1.Hash, error) {
	parsed, err := reference.ParseAnyReference(ref)
	if err != nil {
		return v1.Hash{}, err
	}
	if named, ok := parsed.(reference.Named); ok {
		id := i.Names[nameKey(named)]
		if _, ok := i.Images[id]; ok {
			return id, nil
		}
	}
	digits := strings.TrimPrefix(ref, "sha256:")
	if id := (v1.Hash{Algorithm: "sha256", Hex: digits}); len(digits) == hex.EncodedLen(sha256.Size) {
		if _, ok := i.Images[id]; ok {
			return id, nil
		}
	} else if len(digits) >= 12 && strings.Trim(digits, "0123456789abcdef") == "" {
		var found []v1.Hash
		for id := range i.Images {
			if strings.HasPrefix(id.Hex, digits) {
				found = append(found, id)
			}
		}
		if len(found) > 1 {
			return v1.Hash{}, fmt.Errorf("the ids of %d images begin so: give more of it", len(found))
		}
		if len(found) == 1 {
			return found[0], nil
		}
	}
	return v1.Hash{}, fmt.Errorf("%w: it is not in the store; pull or load it first", engine.ErrNoImage)
}

// nameKey is how the index writes a name. As with Docker, a digest makes a tag
// meaningless.
func nameKey(named reference.Named) string {
	if digested, ok := named.(reference.Digested); ok {
		return named.Name() + "@" + digested.Digest().String()
	}
	return reference.TagNameOnly(named).String()
}

// namesOf returns the names of an image as people write them.
func (i *index) namesOf(id v1.Hash) []string {
	var names []string
	for key, of := range i.Names {
		if of != id {
			continue
		}
		if named, err := reference.ParseNormalizedNamed(key); err == nil {
			names = append(names, reference.FamiliarString(named))
		}
	}
	slices.Sort(names)
	return names
}

// remove forgets an image and its names.
func (i *index) remove(id v1.Hash) {
	delete(i.Images, id)
	maps.DeleteFunc(i.Names, func(_ string, of v1.Hash) bool { return of == id })
}

// images lists the images of an index; one whose configuration is lost is told
// without it.
func (s *Store) images(index *index) []Image {
	images := make([]Image, 0, len(index.Images))
	for id := range index.Images {
		image, err := s.image(index, id)
		if err != nil {
			s.logger.Warn("an image is damaged", "image", id.String(), "error", err)
		}
		images = append(images, image)
	}
	slices.SortFunc(images, func(a, b Image) int {
		return cmp.Or(b.Used.Compare(a.Used), strings.Compare(a.ID, b.ID))
	})
	return images
}

func hashOf(content []byte) v1.Hash {
	sum := sha256.Sum256(content)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}
