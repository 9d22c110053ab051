// Package artifacts keeps what jobs made: directories, each as an OCI artifact that is named
// by its digest, and unpacked again for containers that are to read it.
//
// The same content has the same digest, whatever the order, the time and the machine on which
// it was made: of a file its name, its bytes and whether its owner may execute it count; of a
// link its name and target; of a directory its name. An artifact has exactly one form (see
// form.go), and what is in any other is refused, wherever it comes from.
//
// An artifact is there whole or not at all, is durable before its digest is returned, and only
// the owner of the store may read it. Any number of processes may use a store at once.
//
// # What is trusted
//
// Nothing that a container wrote, nor what a registry gives: both are bounded, cannot lead out
// of their directory, and are compared with their digest. What is on the disk already is
// trusted as far as the kernel vouches for it. When an artifact was unpacked, or was read
// wholly, a fingerprint is kept beside it: of every file of the copy and of the blob the
// number, the size, the mode, and the times of the last change of its content and of anything
// else about it. No program can set the last one, so that what changes a file, its mode or its
// times changes the fingerprint, too. As long as that is the same, nothing is read again. Where
// it is not, all of it is read, and what differs is refused with ErrAltered.
//
// A fingerprint is taken only once the clock of the file system has gone on since the last
// change, so that no later change has the same time; and it counts only until the machine is
// started again, since what was not durable may be lost then. It does not show what goes past
// the file system (a disk that returns other bytes than were written, a program that writes to
// the device), nor what somebody does who may write to the store and makes a new fingerprint,
// or sets the clock back to the nanosecond. Verify reads everything and finds the first two.
package artifacts

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Artifact is a directory that is kept.
type Artifact struct {
	Digest string // of its manifest: sha256:HEX
	Size   int64  // bytes of its files together
	Files  int    // how many files, links and directories it has
}

// Limits bound what is made an artifact. Zero is the default, of which MinFree has none.
type Limits struct {
	Files int   // files, links and directories
	Bytes int64 // of all files together

	// MinFree is how many bytes of its disk Collect leaves.
	MinFree uint64
}

// The default limits.
const (
	DefaultFiles = 100_000
	DefaultBytes = 16 << 30
)

func (l Limits) orDefault() Limits {
	if l.Files == 0 {
		l.Files = DefaultFiles
	}
	if l.Bytes == 0 {
		l.Bytes = DefaultBytes
	}
	return l
}

// ErrMissing is wrapped where there is no artifact of a digest, or a part of it is gone.
var ErrMissing = errors.New("is missing")

// ErrAltered is wrapped where an artifact is not what its digest says.
var ErrAltered = errors.New("is not what it was when it was stored")

// RefusedError is why a directory, or what a registry gave, cannot be an artifact. The fault
// is that of who made it, and the same directory is refused again.
type RefusedError struct {
	Path   string // below the directory; "" of all of it
	Reason string
	Remedy string // "" where there is none but another content
}

func (e *RefusedError) Error() string {
	text := e.Reason
	if e.Path != "" {
		text = fmt.Sprintf("%q %s", e.Path, e.Reason)
	}
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

// Store is a directory of artifacts. Its methods may be called at once.
type Store struct {
	dir     string
	orphans sync.Once // removes what processes left that died

	// How often directories of the store were made, and, one more, how often they had been when
	// they were made durable.
	made, durable atomic.Int64

	startOfMachine func() string // does not change while the process lives

	mu     sync.Mutex
	layers map[string]v1.Descriptor // what manifests name that were read and had their digests
}

// layersKnown is how many manifests are not decoded again: as many as the jobs at work use.
const layersKnown = 4096

// In is the store in a directory, which is made with its first artifact.
func In(dir string) *Store { return &Store{dir: dir, startOfMachine: sync.OnceValue(startOfMachine)} }

const digestPrefix = "sha256:"

// digestOf is the digest of a content.
func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return digestPrefix + hex.EncodeToString(sum[:])
}

// hexOf is the part of a digest that names files.
func hexOf(digest string) (string, error) {
	text, has := strings.CutPrefix(digest, digestPrefix)
	sum, err := hex.DecodeString(text)
	if !has || err != nil || len(sum) != sha256.Size || hex.EncodeToString(sum) != text {
		return "", fmt.Errorf("%.90q is not the digest of an artifact: it is to be %s and 64 hexadecimal digits", digest, digestPrefix)
	}
	return text, nil
}

func (s *Store) blobs() string     { return filepath.Join(s.dir, "blobs", "sha256") }
func (s *Store) unpacked() string  { return filepath.Join(s.dir, "unpacked") }
func (s *Store) temporary() string { return filepath.Join(s.dir, "tmp") }
func (s *Store) blob(digest string) string {
	return filepath.Join(s.blobs(), digest[len(digestPrefix):])
}
func (s *Store) copyOf(digest string) string {
	return filepath.Join(s.unpacked(), digest[len(digestPrefix):])
}

// makeDirectories makes the directories of the store.
func (s *Store) makeDirectories() error {
	for _, dir := range []string{s.blobs(), s.unpacked(), s.temporary()} {
		if exists(dir) {
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		s.made.Add(1)
	}
	return nil
}
