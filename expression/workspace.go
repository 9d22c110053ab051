package expression

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/deployster-go/deployster/expression/python"
)

var errOutside = errors.New("it is outside of the workspace")

// Files returns what a file holds that a template includes. Its name is relative, clean,
// and does not lead outside. The error wraps fs.ErrNotExist where there is no such file,
// and only there: a template may do without it.
type Files func(name string) (string, error)

// read returns a file. Names are relative to the workspace, also within included files;
// what leads out of it, by ".." or an absolute path, is refused.
func (e *Evaluator) read(name string) (string, error) {
	if name == "" || strings.ContainsRune(name, 0) {
		return "", errors.New("the name is not a file name")
	}
	clean := path.Clean(filepath.ToSlash(name))
	if !filepath.IsLocal(clean) {
		return "", errOutside
	}
	return e.files(clean)
}

// Workspace are the files of a directory as they are when they are read. A symbolic link
// that leads out of it is refused.
func Workspace(dir string) Files {
	return func(name string) (string, error) { return readIn(dir, name) }
}

// Frozen are the files of a directory, of which some are as they were when they were looked for:
// texts are those that were there, and seen is all that was looked for, directories with a slash
// behind them. What has come since is not there. What was omitted could not be read, and why.
func Frozen(dir string, texts map[string][]byte, seen []map[string]bool, omitted map[string]string) Files {
	return func(name string) (string, error) {
		if text, known := texts[name]; known {
			return string(text), nil
		}
		for at := name; ; at = path.Dir(at) {
			if why, left := omitted[at]; left {
				return "", fmt.Errorf("it is not what was looked at before: %s", why)
			}
			for _, names := range seen {
				if at == name && names[at] || names[at+"/"] {
					return "", fmt.Errorf("there was no such file in the workspace: %w", fs.ErrNotExist)
				}
			}
			if at == path.Dir(at) {
				return readIn(dir, name)
			}
		}
	}
}

func readIn(dir, clean string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("the workspace cannot be opened: %w", err)
	}
	defer root.Close() //nolint:errcheck // opened for reading
	// Stat first: opening a pipe would wait for its writer.
	info, err := root.Stat(clean)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("there is no such file in the workspace: %w", fs.ErrNotExist)
	case err != nil && strings.Contains(err.Error(), "escapes"):
		return "", errOutside
	case err != nil:
		return "", withoutName(err)
	case !info.Mode().IsRegular():
		return "", errors.New("it is not a file")
	case info.Size() > maxSource:
		return "", fmt.Errorf("it is larger than %d MiB", maxSource>>20)
	}
	file, err := root.Open(clean)
	if err != nil {
		return "", withoutName(err)
	}
	defer file.Close() //nolint:errcheck // opened for reading
	data, err := io.ReadAll(io.LimitReader(file, maxSource+1))
	return string(data), withoutName(err)
}

// withoutName is why a file cannot be read: which one is said by who asks for it.
func withoutName(err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// load reads and parses a file once per evaluation.
func (s *evaluation) load(name string) (*template, error) {
	if name == "" {
		return nil, errors.New("the name is not a file name")
	}
	name = path.Clean(filepath.ToSlash(name))
	if t, ok := s.files[name]; ok {
		return t, nil
	}
	src, err := s.e.read(name)
	if err != nil {
		return nil, err
	}
	if s.reads++; s.reads > maxFiles {
		python.Throw(python.Exceeded("more than %d files are included; is one including itself?", maxFiles))
	}
	// A tree is larger than its text.
	s.Work(len(src))
	s.Memory(16 * len(src))
	t := s.e.parse(name, src)
	if s.files == nil {
		s.files = map[string]*template{}
	}
	s.files[name] = t
	return t, nil
}
