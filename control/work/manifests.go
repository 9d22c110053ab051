package work

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/namedfile"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/manifest"
)

// Texts are the texts of manifests, and of what they include, that revisions carry, by
// their SHA-256: a rollback applies what the revision was, whatever became of the
// files. They are not in the log, as they may hold secrets.
type Texts struct {
	objects objects.Store
	older   string // directory of those that were kept before there were objects
}

// NewTexts are those in a directory of objects, which give is to give to its users, and
// those that a former version kept below the workspace.
func NewTexts(dir, workspace string, give objects.Give) Texts {
	return Texts{objects: objects.In(dir, give), older: filepath.Join(workspace, engine.StateDir, "manifests")}
}

// TextsIn are those in a store, and no others.
func TextsIn(store objects.Store) Texts { return Texts{objects: store} }

// Keep keeps a text, which is durable on return, and returns its digest.
func (t Texts) Keep(text []byte) (digest string, err error) { return t.objects.Keep(text) }

// Objects are where the texts are kept.
func (t Texts) Objects() objects.Store { return t.objects }

// Load returns the text of a digest, of which it is sure.
func (t Texts) Load(digest string) ([]byte, error) {
	text, err := t.objects.Load(digest)
	if errors.Is(err, objects.ErrMissing) && t.older != "" {
		if older, failed := objects.Read(filepath.Join(t.older, digest+".yaml"), digest); !errors.Is(failed, objects.ErrMissing) {
			text, err = older, failed
		}
	}
	return text, objects.Remedied(err)
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
	if info, err := os.Stat(abs); err == nil && namedfile.Irregular(info) != nil {
		return "", fmt.Errorf("it %w", namedfile.Irregular(info)) // to open it may take forever
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
