package tfpackage

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// unpack takes the program out of a package's archive.
func (f Finder) unpack(p Package) (_ Package, err error) {
	archive, err := zip.OpenReader(p.Path)
	if err != nil {
		return Package{}, fmt.Errorf("reading %s: %w", p.Path, err)
	}
	defer archive.Close() //nolint:errcheck // it was only read
	program := programIn(archive.File, p.Name)
	if program == nil {
		return Package{}, fmt.Errorf("%s has no file %s%s*", p.Path, programPrefix, p.Name)
	}
	dir, err := os.MkdirTemp(f.Temp, "deployster-provider-")
	if err != nil {
		return Package{}, err
	}
	unpacked := Package{Name: p.Name, Version: p.Version, Path: filepath.Join(dir, programPrefix+p.Name), temporary: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, unpacked.Close())
		}
	}()
	return unpacked, write(unpacked.Path, program)
}

func programIn(files []*zip.File, name string) *zip.File {
	for _, f := range files {
		if f.Mode().IsRegular() && (f.Name == programPrefix+name || strings.HasPrefix(f.Name, programPrefix+name+"_")) && !strings.Contains(f.Name, "/") {
			return f
		}
	}
	return nil
}

func write(path string, program *zip.File) error {
	from, err := program.Open()
	if err != nil {
		return fmt.Errorf("reading %s: %w", program.Name, err)
	}
	defer from.Close()                                                     //nolint:errcheck // it was only read
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700) //nolint:gosec // it is a program
	if err != nil {
		return err
	}
	n, err := io.Copy(to, io.LimitReader(from, maxProgram+1))
	if err == nil && n > maxProgram {
		err = fmt.Errorf("%s has more than %d bytes", program.Name, int64(maxProgram))
	}
	return errors.Join(err, to.Close())
}
