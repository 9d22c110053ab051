package format

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/deployster-go/deployster/internal/atomicfile"
	"github.com/deployster-go/deployster/internal/cli/exit"
)

// target is the file that is replaced: where its name is a link, what that leads to.
func target(name string) (string, os.FileInfo, error) {
	path, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", nil, fmt.Errorf("writing %s: %w", name, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", nil, fmt.Errorf("writing %s: %w", name, err)
	}
	return path, info, nil
}

// replaceable refuses what cannot be written, before anything is.
func replaceable(docs []document) error {
	for _, d := range docs {
		if d.name == stdin || !d.changes() {
			continue
		}
		_, info, err := target(d.name)
		switch {
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return exit.Usage("%s is no file that can be replaced: give it on stdin, and - as its name", d.name)
		case info.Mode().Perm()&writable == 0:
			return exit.Usage("%s is read-only: make it writable (chmod u+w %s), or look with --diff", d.name, d.name)
		}
	}
	return nil
}

// replace puts a file into its form: whole or not at all, with its mode and owner.
func replace(d document) error {
	path, info, err := target(d.name)
	if err != nil {
		return err
	}
	f, err := atomicfile.Create(path)
	if err != nil {
		return fmt.Errorf("writing %s: %w", d.name, err)
	}
	defer f.Discard()
	_, err = f.Write(d.form)
	if err = errors.Join(err, f.Chmod(info.Mode().Perm()), keepOwner(f.File, info)); err == nil {
		err = f.Commit()
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", d.name, err)
	}
	return nil
}

// writable are the bits of a mode with which anybody may write.
const writable os.FileMode = 0o222
