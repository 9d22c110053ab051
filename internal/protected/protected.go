// Package protected keeps documents with secrets in files that only their owner can read,
// so that the log and other files need to hold no more than a reference to them.
//
// A reference is a random name and a hash. The name says nothing of the document, and the
// hash, which finds out whether a file is what was written, is salted: whoever has the
// reference cannot try out what the document may say. Documents are never changed; another
// content is another document.
package protected

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/deployster-go/deployster/internal/atomicfile"
	"github.com/deployster-go/deployster/internal/regularfile"
)

// DirName is the directory of the documents below that of Deployster in a workspace.
const DirName = "protected"

// maxDocument bounds a file that is read, in bytes.
const maxDocument = 16 << 20

// nameLength is that of a name: 16 random bytes in hexadecimal.
const nameLength = 32

// Ref refers to a document. It is no secret. The zero Ref refers to none.
type Ref struct {
	Name string `json:"name"`
	Hash string `json:"sha256"`
}

// Store keeps documents in a directory. It is safe for concurrent use, also by several
// processes.
type Store struct {
	dir    string
	random io.Reader
}

// New returns the store in a directory, which is made when something is put into it.
func New(dir string) *Store { return &Store{dir, rand.Reader} }

// envelope is a file: the salt makes the hashes of equal documents differ.
type envelope struct {
	Salt     string          `json:"salt"`
	Document json.RawMessage `json:"document"`
}

// Put keeps a document, which is anything that encodes to JSON; it is durable on return.
func (s *Store) Put(document any) (Ref, error) {
	ref, err := s.put(document)
	if err != nil {
		return Ref{}, fmt.Errorf("keeping a protected document in %s: %w", s.dir, err)
	}
	return ref, nil
}

func (s *Store) put(document any) (Ref, error) {
	raw, err := json.Marshal(document)
	if err != nil {
		return Ref{}, err
	}
	var drawn [nameLength]byte // a name and a salt
	if _, err := io.ReadFull(s.random, drawn[:]); err != nil {
		return Ref{}, err
	}
	text := hex.EncodeToString(drawn[:])
	content, err := json.Marshal(envelope{text[nameLength:], raw})
	if err != nil {
		return Ref{}, err
	}
	if len(content) > maxDocument {
		return Ref{}, fmt.Errorf("it has %d bytes; at most %d are possible", len(content), maxDocument)
	}
	if err := s.makeDir(); err != nil {
		return Ref{}, err
	}
	ref := Ref{Name: text[:nameLength], Hash: hash(content)}
	return ref, atomicfile.WriteFile(s.path(ref.Name), content)
}

// makeDir makes the directory, durably, and keeps others out of one that is there.
func (s *Store) makeDir() error {
	info, err := os.Lstat(s.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return err
		}
		return atomicfile.SyncDir(filepath.Dir(s.dir))
	case err != nil:
		return err
	case !info.IsDir():
		return errors.New("it is not a directory: move it away")
	case info.Mode().Perm()&0o077 != 0:
		return os.Chmod(s.dir, 0o700) //nolint:gosec // a directory is entered by its owner
	}
	return nil
}

// Get reads the document that a reference is to. It fails with an error that is
// fs.ErrNotExist where there is no such document (any more).
func (s *Store) Get(ref Ref, document any) error {
	if err := s.get(ref, document); err != nil {
		return fmt.Errorf("reading the protected document %s: %w", s.path(ref.Name), err)
	}
	return nil
}

func (s *Store) get(ref Ref, document any) error {
	if !validName(ref.Name) {
		return errors.New("no document can have this name")
	}
	content, err := read(s.path(ref.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the file is not there; restore it from a backup, with the log: %w", fs.ErrNotExist)
	}
	if err != nil {
		return err
	}
	if hash(content) != ref.Hash {
		return errors.New("the file is not what was written; restore it from a backup, with the log")
	}
	var e envelope
	if err := json.Unmarshal(content, &e); err != nil {
		return err
	}
	return json.Unmarshal(e.Document, document)
}

// read reads a file that is not too large. What leads elsewhere or never ends is refused.
func read(path string) ([]byte, error) {
	file, info, err := regularfile.OpenNoLink(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	if info.Size() > maxDocument {
		return nil, fmt.Errorf("it has %d bytes; at most %d are read", info.Size(), maxDocument)
	}
	return io.ReadAll(io.LimitReader(file, maxDocument+1))
}

// Remove removes a document that nothing refers to any more. One that is not there is
// removed already.
func (s *Store) Remove(ref Ref) error {
	if !validName(ref.Name) {
		return nil
	}
	if err := os.Remove(s.path(ref.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the protected document %s: %w", s.path(ref.Name), err)
	}
	return nil
}

// Prune removes the documents that were written before a time and that nothing refers to:
// whoever wrote them died before it could say where they are. With dryRun it removes
// nothing. It returns what it removed, or would.
func (s *Store) Prune(referred func(name string) bool, before time.Time, dryRun bool) ([]fs.FileInfo, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for protected documents that nothing refers to: %w", err)
	}
	var pruned []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !info.ModTime().Before(before) || !validName(e.Name()) || referred(e.Name()) {
			continue // what is gone by now is none
		}
		if !dryRun {
			if err := s.Remove(Ref{Name: e.Name()}); err != nil {
				return pruned, err
			}
		}
		pruned = append(pruned, info)
	}
	return pruned, nil
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }

// validName reports whether a name is one that Put gives: no path leads out of the store.
func validName(name string) bool {
	_, err := hex.DecodeString(name)
	return err == nil && len(name) == nameLength
}

func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
