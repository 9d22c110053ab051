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

// File is a file as a commit has it.
type File struct {
	Commit  Hash
	Message string // of the commit
	Author  string
	Parent  Hash // the first commit before it, "" for none
	Path    string
	Content []byte
	Missing error // why the commit has no such file, or none that can be read

	store *memory.Storage
	trees []*object.Tree // from the root to the directory that has it
}

const maxFile = 4 << 20

// Files reads one file as several commits have it.
func (b *Branches) Files(ctx context.Context, path string, commits ...Hash) (files []*File, err error) {
	store, filtered, err := b.fetch(ctx, true, commits...)
	if err != nil {
		return nil, err
	}
	for again := false; ; again = true {
		files = nil
		for _, c := range commits {
			f, err := read(store, c, path)
			if errors.Is(err, plumbing.ErrObjectNotFound) && filtered && !again {
				break
			}
			if err != nil {
				f.Missing = err
			}
			files = append(files, f)
		}
		if len(files) == len(commits) {
			return files, nil
		}
		if store, _, err = b.fetch(ctx, false, commits...); err != nil { // it is a larger file
			return nil, err
		}
	}
}

func read(store *memory.Storage, at Hash, path string) (*File, error) {
	f := &File{Commit: at, Path: path, store: store}
	commit, err := object.GetCommit(store, plumbing.NewHash(string(at)))
	if err != nil {
		return f, fmt.Errorf("commit %s: %w", short(at), err)
	}
	f.Message, f.Author = commit.Message, commit.Author.Name
	if len(commit.ParentHashes) > 0 {
		f.Parent = Hash(commit.ParentHashes[0].String())
	}
	hash := commit.TreeHash
	parts := strings.Split(path, "/")
	for i, part := range parts {
		tree, err := object.GetTree(store, hash)
		if err != nil {
			return f, fmt.Errorf("directory %q: %w", strings.Join(parts[:i], "/"), err)
		}
		f.trees = append(f.trees, tree)
		entry := entryOf(tree, part)
		upTo := strings.Join(parts[:i+1], "/")
		last := i == len(parts)-1
		switch {
		case entry == nil:
			return f, fmt.Errorf("there is no %s in the repository", upTo)
		case entry.Mode == filemode.Symlink:
			return f, fmt.Errorf("%s is a symbolic link, which is not followed: name the file itself", upTo)
		case entry.Mode == filemode.Submodule:
			return f, fmt.Errorf("%s is another repository (a submodule): name that one", upTo)
		case last == (entry.Mode == filemode.Dir):
			return f, fmt.Errorf("%s is not a %s", upTo, map[bool]string{true: "file, but a directory", false: "directory"}[last])
		}
		hash = entry.Hash
	}
	f.Content, err = content(store, hash)
	if err != nil {
		return f, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
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
