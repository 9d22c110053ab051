package entrypoint

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// prepare puts this program's file where other containers of a Pod have it, and what
// they are to see.
func prepare(args []string) int {
	var p Prepare
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &p) != nil {
		return refuse("a Pod is prepared by deployster itself")
	}
	if err := copyProgram(p.Shim); err != nil {
		return refuse(fmt.Sprintf("copying the shim: %v", err))
	}
	if p.Files == "" {
		return 0
	}
	c := newCaller(p.Idle)
	if err := receive(c, p.Files); err != nil {
		return c.fail(err)
	}
	return 0
}

func copyProgram(to string) error {
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer func() { _ = program.Close() }()
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755) //nolint:gosec // any user of the Pod executes it
	if err != nil {
		return err
	}
	_, err = io.Copy(file, program)
	return errors.Join(err, file.Close())
}

// receive puts the files that the caller sends into a directory.
func receive(c *caller, dir string) error {
	if err := c.hear(); err != nil {
		return err
	}
	framed, err := c.input()
	if err != nil {
		return err
	}
	packed, contents := io.Pipe()
	go func() { contents.CloseWithError(unframePieces(contents, framed, c.answer)) }()
	err = unpack(dir, packed)
	// To its end, so that the input is whole, and nobody else reads it from now on.
	if _, rest := io.Copy(io.Discard, packed); err == nil {
		err = rest
	}
	if err != nil {
		return fmt.Errorf("receive files: %w", err)
	}
	return nil
}

// unpack makes the directories, files and links of a tar below a directory, and nothing
// outside of it.
func unpack(dir string, packed io.Reader) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	type directory struct {
		name string
		mode fs.FileMode
	}
	var directories []directory // get their modes at last, which may forbid to write to them
	for files := tar.NewReader(packed); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		mode := header.FileInfo().Mode().Perm()
		switch header.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(header.Name, 0o700)
			directories = append(directories, directory{header.Name, mode})
		case tar.TypeReg:
			err = writeFile(root, header.Name, mode, files)
		case tar.TypeSymlink:
			err = root.Symlink(header.Linkname, header.Name)
		default:
			err = fmt.Errorf("%s is neither a file, a directory nor a link", header.Name)
		}
		if err != nil {
			return err
		}
	}
	for _, d := range slices.Backward(directories) {
		if err := root.Chmod(d.name, d.mode); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(root *os.Root, name string, mode fs.FileMode, content io.Reader) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Chmod(mode), file.Close())
}
