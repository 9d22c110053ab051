package work

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/atomicfile"
	"github.com/deployster-go/deployster/manifest"
)

// Manifests are the texts of manifests that revisions of environments apply, kept
// by their SHA-256, so that a rollback applies what the revision was, whatever
// became of the file. They are not in the log, as they may hold secrets.
type Manifests struct{ dir string }

// ManifestsBelow are those that are kept below a workspace.
func ManifestsBelow(workspace string) Manifests {
	return Manifests{filepath.Join(workspace, engine.StateDir, "manifests")}
}

func (m Manifests) path(digest string) string { return filepath.Join(m.dir, digest+".yaml") }

// Keep keeps a text, which is durable on return, and returns its digest. It is
// whole there or not at all.
func (m Manifests) Keep(text []byte) (digest string, err error) {
	digest = ManifestDigest(text)
	if _, kept := m.Load(digest); kept != nil {
		if err = os.MkdirAll(m.dir, 0o700); err == nil {
			err = atomicfile.WriteFile(m.path(digest), text)
		}
	}
	// Also of one that is there: who wrote it may have died before this.
	if err = cmp.Or(err, atomicfile.SyncDir(m.dir), atomicfile.SyncDir(filepath.Dir(m.dir))); err != nil {
		return "", fmt.Errorf("keeping the text of the manifest: %w", err)
	}
	return digest, nil
}

// Load returns the text of a digest, of which it is sure.
func (m Manifests) Load(digest string) ([]byte, error) {
	if sum, err := hex.DecodeString(digest); err != nil || len(sum) != sha256.Size || hex.EncodeToString(sum) != digest {
		return nil, fmt.Errorf("%q is not the SHA-256 of a manifest, as a revision has it", digest)
	}
	const remedy = "put it back from a copy of the workspace, or make a new revision of the present file with env update"
	path := m.path(digest)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s, the manifest that the revision applies, is gone: %s", path, remedy)
	}
	text, err := ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest that the revision applies: %w", err)
	}
	if ManifestDigest(text) != digest {
		return nil, fmt.Errorf("%s is not what the revision applies any more, for it was changed: %s", path, remedy)
	}
	return text, nil
}

// ManifestDigest is by which a text is known.
func ManifestDigest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// ReadFile reads a file that somebody named, up to the size that files of
// Deployster may have.
func ReadFile(path string) ([]byte, error) {
	sources, err := manifest.ReadFiles([]string{path})
	if err != nil {
		return nil, err
	}
	return sources[0].Data, nil
}

// ManifestBelow is the path of a manifest below the workspace, in which it must
// be, also where it is a link. Of a file that cannot be opened the error does not
// name it.
func ManifestBelow(workspace, path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	below, err := filepath.Rel(workspace, abs)
	if err != nil || !filepath.IsLocal(below) {
		return "", fmt.Errorf("it is not below the workspace %s", workspace)
	}
	f, err := os.OpenInRoot(workspace, below)
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return "", failed.Err
	}
	if err != nil {
		return "", err
	}
	return filepath.ToSlash(below), f.Close()
}
