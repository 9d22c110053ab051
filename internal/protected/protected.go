// Package protected keeps documents with secrets where only their owner can read them, in
// files or in a database, so that the log and other files need to hold no more than a reference
// to them.
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
	"time"
)

// DirName is the directory of the documents below that of Deployster in a workspace.
const DirName = "protected"

// MaxSize bounds a document with its salt, in bytes.
const MaxSize = 16 << 20

// nameLength is that of a name: 16 random bytes in hexadecimal.
const nameLength = 32

// Ref refers to a document. It is no secret. The zero Ref refers to none.
type Ref struct {
	Name string `json:"name"`
	Hash string `json:"sha256"`
}

// Store keeps documents. It is safe for concurrent use, also by several processes.
type Store struct {
	place  Remote
	random io.Reader
}

// Remote is where documents are, each by a name that validName accepts.
type Remote interface {
	Keep(name string, content []byte) error // durable on return
	Load(name string) ([]byte, error)       // fails with fs.ErrNotExist where there is none
	Remove(name string) error               // also what is not there
	Old(before time.Time) ([]Kept, error)   // those that were kept before a time
	String() string                         // for people
}

// Kept is a document without its content.
type Kept struct {
	Name   string
	Size   int64
	Stored time.Time
}

// New returns the store in a directory, which is made when something is put into it.
func New(dir string) *Store { return Via(directory(dir)) }

// Via returns the store in some other place.
func Via(place Remote) *Store { return &Store{place, rand.Reader} }

// envelope is a file: the salt makes the hashes of equal documents differ.
type envelope struct {
	Salt     string          `json:"salt"`
	Document json.RawMessage `json:"document"`
}

// Put keeps a document, which is anything that encodes to JSON; it is durable on return.
func (s *Store) Put(document any) (Ref, error) {
	ref, err := s.put(document)
	if err != nil {
		return Ref{}, fmt.Errorf("keeping a protected document in %s: %w", s.place, err)
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
	if len(content) > MaxSize {
		return Ref{}, fmt.Errorf("it has %d bytes; at most %d are possible", len(content), MaxSize)
	}
	ref := Ref{Name: text[:nameLength], Hash: hash(content)}
	return ref, s.place.Keep(ref.Name, content)
}

// Get reads the document that a reference is to. It fails with an error that is
// fs.ErrNotExist where there is no such document (any more).
func (s *Store) Get(ref Ref, document any) error {
	if err := s.get(ref, document); err != nil {
		return fmt.Errorf("reading the protected document %s in %s: %w", ref.Name, s.place, err)
	}
	return nil
}

func (s *Store) get(ref Ref, document any) error {
	if !validName(ref.Name) {
		return errors.New("no document can have this name")
	}
	content, err := s.place.Load(ref.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("it is not there; restore it from a backup, with the log: %w", fs.ErrNotExist)
	}
	if err != nil {
		return err
	}
	if hash(content) != ref.Hash {
		return errors.New("it is not what was written; restore it from a backup, with the log")
	}
	var e envelope
	if err := json.Unmarshal(content, &e); err != nil {
		return err
	}
	return json.Unmarshal(e.Document, document)
}

// Copy has another store keep a document as well, by the same name; there is false where there
// is no such document, or it cannot be read.
func (s *Store) Copy(to *Store, name string) (there bool, err error) {
	if !validName(name) {
		return false, nil
	}
	content, err := s.place.Load(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	there = err == nil
	if there {
		err = to.place.Keep(name, content)
	}
	if err != nil {
		return there, fmt.Errorf("copying the protected document %s from %s to %s: %w", name, s.place, to.place, err)
	}
	return true, nil
}

// Remove removes a document that nothing refers to any more. One that is not there is
// removed already.
func (s *Store) Remove(ref Ref) error {
	if !validName(ref.Name) {
		return nil
	}
	if err := s.place.Remove(ref.Name); err != nil {
		return fmt.Errorf("removing the protected document %s in %s: %w", ref.Name, s.place, err)
	}
	return nil
}

// Prune removes the documents that were written before a time and that nothing refers to:
// whoever wrote them died before it could say where they are. With dryRun it removes
// nothing. It returns what it removed, or would.
func (s *Store) Prune(referred func(name string) bool, before time.Time, dryRun bool) ([]Kept, error) {
	old, err := s.place.Old(before)
	if err != nil {
		return nil, fmt.Errorf("looking for protected documents that nothing refers to: %w", err)
	}
	var pruned []Kept
	for _, k := range old {
		if !validName(k.Name) || referred(k.Name) {
			continue
		}
		if !dryRun {
			if err := s.Remove(Ref{Name: k.Name}); err != nil {
				return pruned, err
			}
		}
		pruned = append(pruned, k)
	}
	return pruned, nil
}

// validName reports whether a name is one that Put gives: no path leads out of the store.
func validName(name string) bool {
	_, err := hex.DecodeString(name)
	return err == nil && len(name) == nameLength
}

func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
