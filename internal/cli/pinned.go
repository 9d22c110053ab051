package cli

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// pinned are the texts of manifests that revisions of environments apply, kept
// by their SHA-256, so that a rollback applies what the revision was, whatever
// became of the file. They are not in the log, as they may hold secrets.
type pinned struct{ dir string }

func pinnedBelow(workspace string) pinned {
	return pinned{filepath.Join(workspace, stateDir, "manifests")}
}

func (p pinned) path(digest string) string { return filepath.Join(p.dir, digest+".yaml") }

// keep keeps a text, which is durable on return, and tells its digest. It is
// whole there or not at all.
func (p pinned) keep(text []byte) (digest string, err error) {
	digest = digestOf(text)
	if _, kept := p.load(digest); kept != nil {
		err = p.write(digest, text)
	}
	// Also of one that is there: who wrote it may have died before this.
	if err = cmp.Or(err, syncDir(p.dir), syncDir(filepath.Dir(p.dir))); err != nil {
		return "", fmt.Errorf("keeping the text of the manifest: %w", err)
	}
	return digest, nil
}

func (p pinned) write(digest string, text []byte) (err error) {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(p.dir, unfinished+"*") // for its owner only
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), p.path(digest))
}

// syncDir makes durable what is in a directory.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// load returns the text of a digest, of which it is sure.
func (p pinned) load(digest string) ([]byte, error) {
	if sum, err := hex.DecodeString(digest); err != nil || len(sum) != sha256.Size || hex.EncodeToString(sum) != digest {
		return nil, fmt.Errorf("%q is not the SHA-256 of a manifest, as a revision has it", digest)
	}
	const remedy = "put it back from a copy of the workspace, or make a new revision of the present file with env update"
	path := p.path(digest)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s, the manifest that the revision applies, is gone: %s", path, remedy)
	}
	text, err := readNamed(path)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest that the revision applies: %w", err)
	}
	if digestOf(text) != digest {
		return nil, fmt.Errorf("%s is not what the revision applies any more, for it was changed: %s", path, remedy)
	}
	return text, nil
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
