package tfpackage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Find finds a provider: PATH[@VERSION], or [[HOST/]NAMESPACE/]NAME[@VERSION] of a
// registry. What it returns must be closed.
func (f Finder) Find(ctx context.Context, provider string) (Package, error) {
	of, version, err := split(provider)
	if err != nil {
		return Package{}, err
	}
	if of == "" {
		return Package{}, errors.New("a provider is needed: a file, a directory, or a name such as NAMESPACE/NAME")
	}
	if !isPath(of) {
		return f.registry(ctx, of, version)
	}
	p, err := f.path(of, version)
	if err != nil {
		return Package{}, fmt.Errorf("looking for a provider in %s: %w", of, err)
	}
	return p, nil
}

func (f Finder) path(path, version string) (Package, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Package{}, err
	}
	if !info.IsDir() {
		return f.file(path, version)
	}
	found, err := f.candidates(path, version)
	if err != nil {
		return Package{}, err
	}
	switch len(found) {
	case 0:
		return Package{}, fmt.Errorf("there is no file %s* for %s/%s%s", programPrefix, f.OS, f.Arch, ofVersion(version))
	case 1:
		return f.file(found[0].path, found[0].version)
	}
	names := make([]string, 0, len(found))
	for _, c := range found {
		names = append(names, c.path)
	}
	return Package{}, fmt.Errorf("%w, or name one of %s", errMany, strings.Join(names, ", "))
}

func ofVersion(version string) string {
	if version == "" {
		return ""
	}
	return " of version " + version
}

// candidate is a file that may be the one.
type candidate struct{ path, version string }

// mostFiles is how many files a directory may have in which a provider is looked for.
const mostFiles = 10_000

// candidates are the programs and archives below a directory. In a mirror the directories
// above a program are VERSION/OS_ARCH, and archives are named for both.
func (f Finder) candidates(dir, version string) (found []candidate, err error) {
	seen := 0
	platform := f.OS + "_" + f.Arch
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if seen++; seen > mostFiles {
			return fmt.Errorf("there are more than %d files; name the one that is meant", mostFiles)
		}
		name := d.Name()
		if d.IsDir() || !strings.HasPrefix(name, programPrefix) || strings.HasSuffix(name, ".json") {
			return nil
		}
		c := candidate{path, versionIn(name)}
		if above := strings.Split(filepath.ToSlash(filepath.Dir(path)), "/"); slices.ContainsFunc(above, isPlatform) {
			if i := slices.IndexFunc(above, isPlatform); above[i] != platform {
				return nil
			} else if i > 0 && versionPattern().MatchString(above[i-1]) {
				c.version = above[i-1]
			}
		}
		if strings.HasSuffix(name, ".zip") && !strings.HasSuffix(name, "_"+platform+".zip") {
			return nil
		}
		if version == "" || c.version == "" || c.version == version {
			found = append(found, c)
		}
		return nil
	})
	return found, err
}

// isPlatform reports whether a directory is named for one, such as linux_amd64.
func isPlatform(name string) bool {
	os, arch, ok := strings.Cut(name, "_")
	return ok && slices.Contains([]string{"linux", "darwin", "windows", "freebsd", "openbsd", "solaris"}, os) &&
		slices.Contains([]string{"amd64", "arm64", "386", "arm", "s390x", "ppc64le", "riscv64"}, arch)
}

// file is a program or an archive.
func (f Finder) file(path, version string) (Package, error) {
	base := filepath.Base(path)
	p := Package{Name: nameIn(base), Version: version, Path: path}
	if p.Version == "" {
		p.Version = versionIn(base)
	}
	if p.Name == "" {
		return Package{}, fmt.Errorf("%s must be named %sNAME, as programs of providers are", base, programPrefix)
	}
	if strings.HasSuffix(base, ".zip") {
		return f.unpack(p)
	}
	return p, nil
}

// nameIn is the name of the provider in the name of a file, such as
// terraform-provider-docker_v3.6.2 or terraform-provider-docker_3.6.2_linux_amd64.zip.
func nameIn(base string) string {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(base, ".zip"), programPrefix)
	name, _, _ := strings.Cut(rest, "_")
	if !ok || !namePattern().MatchString(name) {
		return ""
	}
	return name
}

func versionIn(base string) string {
	_, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(base, ".zip"), programPrefix), "_")
	version, _, _ := strings.Cut(strings.TrimPrefix(rest, "v"), "_")
	if !versionPattern().MatchString(version) {
		return ""
	}
	return version
}
