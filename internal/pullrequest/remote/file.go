package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Commit is a commit with the files that the caller asked for.
type Commit struct {
	Hash    Hash
	Message string
	Author  string
	Parent  Hash   // the first commit before it, "" for none
	Files   []File // in the order of the paths

	tree  plumbing.Hash
	store *memory.Storage
}

// File is a file as a commit has it.
type File struct {
	Path    string
	Content []byte
	Missing error // why the commit has no such file, or none that can be read

	blob plumbing.Hash
}

const maxFile = 4 << 20

// Read returns commits with some of their files. It has the server send as little as it can: all
// directories without contents, then the contents by their hashes.
func (b *Branches) Read(ctx context.Context, paths []string, commits ...Hash) (all []*Commit, err error) {
	ways := b.ways()
	for i, w := range ways {
		var omitted bool
		all, omitted, err = b.readBy(ctx, w, paths, commits)
		var refused *refusedError
		if i+1 < len(ways) && (errors.As(err, &refused) && ctx.Err() == nil || err == nil && omitted && !w.last) {
			continue
		}
		break
	}
	return all, err
}

// readBy reads commits in one way. It also reports whether the server has left out a file.
func (b *Branches) readBy(ctx context.Context, w way, paths []string, commits []Hash) (all []*Commit, omitted bool, err error) {
	store := memory.NewStorage()
	if err := b.fetch(ctx, store, w, hashes(commits)); err != nil {
		return nil, false, err
	}
	var blobs []plumbing.Hash
	for _, at := range commits {
		c, err := find(store, at, paths)
		if err != nil {
			return nil, false, err
		}
		all = append(all, c)
		for _, f := range c.Files {
			if f.Missing == nil && store.HasEncodedObject(f.blob) != nil {
				blobs = append(blobs, f.blob)
			}
		}
	}
	if w.byHash && len(blobs) > 0 {
		if err := b.fetch(ctx, store, way{single: true}, blobs); err != nil {
			return nil, false, err
		}
	}
	for _, c := range all {
		for i := range c.Files {
			f := &c.Files[i]
			if f.Missing != nil {
				continue
			}
			f.Content, err = content(store, f.blob)
			if omits := errors.Is(err, plumbing.ErrObjectNotFound); omits {
				omitted, err = true, fmt.Errorf("it has more than %d bytes, which is the most that is read", maxFile)
			}
			if err != nil {
				f.Missing = fmt.Errorf("%s: %w", f.Path, err)
			}
		}
	}
	return all, omitted, nil
}

func hashes(commits []Hash) (all []plumbing.Hash) {
	for _, c := range commits {
		all = append(all, plumbing.NewHash(string(c)))
	}
	return all
}

// find finds a commit and where its files are.
func find(store *memory.Storage, at Hash, paths []string) (*Commit, error) {
	commit, err := object.GetCommit(store, plumbing.NewHash(string(at)))
	if err != nil {
		return nil, fmt.Errorf("reading commit %s: %w", short(at), err)
	}
	c := &Commit{Hash: at, Message: commit.Message, Author: commit.Author.Name, tree: commit.TreeHash, store: store}
	if len(commit.ParentHashes) > 0 {
		c.Parent = Hash(commit.ParentHashes[0].String())
	}
	for _, path := range paths {
		blob, err := blobOf(store, commit.TreeHash, path)
		c.Files = append(c.Files, File{Path: path, Missing: err, blob: blob})
	}
	return c, nil
}

// blobOf is the hash of the contents of a file.
func blobOf(store *memory.Storage, hash plumbing.Hash, path string) (plumbing.Hash, error) {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		tree, err := object.GetTree(store, hash)
		if err != nil {
			return hash, fmt.Errorf("directory %q: %w", strings.Join(parts[:i], "/"), err)
		}
		entry := entryOf(tree, part)
		upTo := strings.Join(parts[:i+1], "/")
		last := i == len(parts)-1
		switch {
		case entry == nil:
			return hash, fmt.Errorf("there is no %s in the repository: commit it, or name another file", upTo)
		case entry.Mode == filemode.Symlink:
			return hash, fmt.Errorf("%s is a symbolic link, which is not followed: name the file itself", upTo)
		case entry.Mode == filemode.Submodule:
			return hash, fmt.Errorf("%s is another repository (a submodule): name that one", upTo)
		case last == (entry.Mode == filemode.Dir):
			return hash, fmt.Errorf("%s is not a %s", upTo, map[bool]string{true: "file, but a directory", false: "directory"}[last])
		}
		hash = entry.Hash
	}
	return hash, nil
}

func entryOf(tree *object.Tree, name string) *object.TreeEntry {
	for i := range tree.Entries {
		if tree.Entries[i].Name == name {
			return &tree.Entries[i]
		}
	}
	return nil
}

func content(store *memory.Storage, hash plumbing.Hash) ([]byte, error) {
	blob, err := object.GetBlob(store, hash)
	if err != nil {
		return nil, err
	}
	if blob.Size > maxFile {
		return nil, fmt.Errorf("it has %d bytes; at most %d are read", blob.Size, maxFile)
	}
	r, err := blob.Reader()
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // it is in memory
	return io.ReadAll(r)
}

func short(h Hash) string { return string(h[:min(len(h), 10)]) }
