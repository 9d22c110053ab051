package artifacts

import (
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// tree is a sink that unpacks into a directory. Of what comes it relies only on that each
// entry comes after its directory, and the next of another one only when that is complete.
type tree struct {
	levels []level // the directory, and those in it that are not complete
	buffer []byte
}

// level is a directory that is being filled.
type level struct {
	path string
	root *os.Root
	self *os.File
}

func newTree(dir string) (*tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	t := &tree{buffer: make([]byte, bufferSize)}
	return t, t.push("", root)
}

func (t *tree) push(at string, root *os.Root) error {
	self, err := root.Open(".")
	if err != nil {
		return errors.Join(err, root.Close())
	}
	t.levels = append(t.levels, level{at, root, self})
	return nil
}

// in returns the directory of an entry, and completes those that it is not in.
func (t *tree) in(at string) (level, string, error) {
	dir, name := path.Split(at)
	dir = strings.TrimSuffix(dir, "/")
	for len(t.levels) > 1 && t.levels[len(t.levels)-1].path != dir {
		if err := t.pop(); err != nil {
			return level{}, "", err
		}
	}
	return t.levels[len(t.levels)-1], name, nil
}

// pop completes a directory, to which nobody may write then.
func (t *tree) pop() error {
	last := t.levels[len(t.levels)-1]
	t.levels = t.levels[:len(t.levels)-1]
	err := last.self.Chmod(0o555)
	if err == nil {
		err = setTime(last.self, ".")
	}
	return errors.Join(err, last.self.Close(), last.root.Close())
}

// close completes all that is open.
func (t *tree) close() (err error) {
	for len(t.levels) > 0 {
		err = errors.Join(err, t.pop())
	}
	return err
}

// setTime gives a file in a directory the time that everything unpacked has.
func setTime(dir *os.File, name string) error {
	at, err := unix.TimeToTimespec(stamp)
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(int(dir.Fd()), name, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
}

func (t *tree) directory(at string) error {
	dir, name, err := t.in(at)
	if err != nil {
		return err
	}
	if err := dir.root.Mkdir(name, 0o700); err != nil {
		return err
	}
	root, err := dir.root.OpenRoot(name)
	if err != nil {
		return err
	}
	return t.push(at, root)
}

func (t *tree) link(e entry) error {
	dir, name, err := t.in(e.path)
	if err != nil {
		return err
	}
	if err := dir.root.Symlink(e.target, name); err != nil {
		return err
	}
	return setTime(dir.self, name)
}

func (t *tree) file(e entry, content io.Reader) error {
	dir, name, err := t.in(e.path)
	if err != nil {
		return err
	}
	f, err := dir.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, content, t.buffer)
	if err == nil {
		mode := os.FileMode(0o444)
		if e.executable {
			mode = 0o555
		}
		err = f.Chmod(mode)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return setTime(dir.self, name)
}
