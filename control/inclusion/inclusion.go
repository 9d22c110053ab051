// Package inclusion reads the files of a workspace that manifests may include, whatever their
// variables are, as a revision carries them.
package inclusion

import (
	"fmt"

	"github.com/deployster-go/deployster/expression"
)

// The bounds of what a revision carries. They are far above what manifests include.
const (
	MaxFiles = 1000
	maxBytes = 64 << 20 // of all of them
)

// Reader reads files of a workspace, each once.
type Reader struct {
	Expressions *expression.Evaluator // over the files, which it reads
	Files       map[string][]byte     // that were read, by their paths below the workspace
	Omitted     map[string]string     // why files, and directories with all that is in them, are left out, by their names

	workspace string
	seen      []map[string]bool // what was looked for: files, and directories with a slash behind them
}

// New returns a reader that has some files already.
func New(workspace string, files map[string][]byte, omitted map[string]string) *Reader {
	r := &Reader{workspace: workspace, Files: files, Omitted: omitted}
	r.Expressions = expression.Over(r.read)
	return r
}

func (r *Reader) read(name string) (string, error) {
	if text, known := r.Files[name]; known {
		return string(text), nil
	}
	if err := r.Bounded(); err != nil {
		return "", err
	}
	text, err := expression.Workspace(r.workspace)(name)
	if err == nil {
		r.Files[name] = []byte(text)
	}
	return text, err
}

// Bounded fails where the files are too much for a revision.
func (r *Reader) Bounded() error {
	size := 0
	for _, text := range r.Files {
		size += len(text)
	}
	if len(r.Files) > MaxFiles || size > maxBytes {
		return fmt.Errorf("it includes too much for a revision to carry: at most %d files with together %d MiB", MaxFiles, maxBytes>>20)
	}
	return nil
}

// Frozen are all files of the workspace, those that were read as they were then.
func (r *Reader) Frozen() expression.Files {
	return expression.Frozen(r.workspace, r.Files, r.seen, r.Omitted)
}
