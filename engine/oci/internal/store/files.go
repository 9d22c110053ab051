//go:build linux

package store

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// maxLinks bounds how many links in an archive may lead to a file.
const maxLinks = 8

var archiveLimits = limits{bytes: layerLimits.bytes, entries: 100_000, names: layerLimits.names}

// files are those of `docker save` or of an OCI layout.
type files struct{ fs.FS }

// has reports whether there is something with this name.
func (f files) has(name string) bool {
	_, err := fs.Stat(f, name)
	return err == nil
}

// open opens a file.
func (f files) open(name string) (fs.File, error) {
	info, err := fs.Stat(f, name) // opening a named pipe would wait for a writer
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: save the image again, with all its parts", name)
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return f.Open(name)
}

// document reads a small file.
func (f files) document(name string) ([]byte, error) {
	file, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := readDocument(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return content, nil
}

// archived are the files of an archive that was extracted, by their names in it.
type archived map[string]archivedFile

// archivedFile is a file outside the archive, or a link to another name in it.
type archivedFile struct{ path, link string }

// Open implements fs.FS.
func (a archived) Open(name string) (fs.File, error) {
	at := name
	for range maxLinks {
		found, ok := a[at]
		switch {
		case !ok:
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		case found.link == "":
			return os.Open(found.path)
		}
		at = found.link
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("too many links")}
}

// extract writes the files of an archive into the workspace, under names that
// it makes up.
func extract(in *workspace, r io.Reader, limit limits) (files, error) {
	plain, err := decompress(r)
	if err != nil {
		return files{}, readError(err, 0)
	}
	defer func() { _ = plain.Close() }()
	bounded := &boundedReader{r: plain, limit: limit}
	total := &counted{limits: limit}
	read := tar.NewReader(bounded)
	found := archived{}
	for entries := 0; ; entries++ {
		header, err := read.Next()
		switch {
		case errors.Is(err, io.EOF) && entries > 0:
			// What pads a tar is read for those who write it, and for a checksum
			// at its end.
			if _, err := io.Copy(io.Discard, bounded); err != nil {
				return files{}, readError(err, entries)
			}
			return files{found}, nil
		case err != nil:
			return files{}, readError(err, entries)
		}
		if err := total.check(header); err != nil {
			return files{}, readError(err, entries)
		}
		name := cleanName(header.Name)
		switch header.Typeflag {
		case tar.TypeReg:
			to := in.path("file-" + strconv.Itoa(entries))
			if err := writeFile(to, read); err != nil {
				return files{}, fmt.Errorf("%q: %w", name, readError(err, entries))
			}
			found[name] = archivedFile{path: to}
		case tar.TypeLink:
			found[name] = archivedFile{link: cleanName(header.Linkname)}
		case tar.TypeSymlink:
			found[name] = archivedFile{link: cleanName(path.Join(path.Dir(name), header.Linkname))} //nolint:gosec // a key of the map and no path
		}
	}
}

// readError explains why an archive cannot be read after some entries.
func readError(err error, entries int) error {
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("the tar is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the tar is truncated; save the image again: %w", err)
	case entries == 0 && errors.Is(err, tar.ErrHeader):
		return fmt.Errorf("it is not a tar, and must be one that `docker save` made or that holds an OCI layout: %w", err)
	default:
		return fmt.Errorf("read the tar: %w", err)
	}
}

// cleanName writes the name of an entry in the one way that fs.FS knows.
func cleanName(name string) string {
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}

func writeFile(path string, r io.Reader) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, r)
	return errors.Join(err, file.Close())
}
