package shipped

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Binary is a static Linux binary of Deployster.
type Binary struct {
	Path   string
	Arch   string // GOARCH that it is for
	SHA256 string // of its content, hex
}

func (b Binary) open() (*os.File, error) { return os.Open(b.Path) }

// Source finds binaries. Its fields are set before first use.
type Source struct {
	Executable string // path of the running program (os.Executable)
	GOOS       string // that the running program is for
	GOARCH     string
	CacheDir   string // where hashes are remembered and binaries taken from images are kept; "" is nowhere
}

// Binary finds the binary for an architecture: the running program if it will
// do, else the file deployster-linux-ARCH beside it. A missing file is an error
// that names it and is fs.ErrNotExist.
func (s Source) Binary(arch string) (Binary, error) {
	if s.GOOS == "linux" && s.GOARCH == arch {
		switch static, err := isStatic(s.Executable, arch); {
		case err != nil:
			return Binary{}, fmt.Errorf("reading the running program: %w", err)
		case static:
			return s.hashed(s.Executable, arch)
		}
	}
	beside := filepath.Join(filepath.Dir(s.Executable), "deployster-linux-"+arch)
	b, err := s.checked(beside, arch)
	if errors.Is(err, fs.ErrNotExist) {
		why := fmt.Sprintf("the engine runs linux/%s and this program is for %s/%s", arch, s.GOOS, s.GOARCH)
		if s.GOOS == "linux" && s.GOARCH == arch {
			why = "this program is not a static binary"
		}
		return Binary{}, fmt.Errorf("%s: the resource types that ship with Deployster need the file %s, "+
			"a static Linux binary of the same version (or name an image of Deployster with --types-image): %w", why, beside, fs.ErrNotExist)
	}
	return b, err
}

func (s Source) checked(path, arch string) (Binary, error) {
	static, err := isStatic(path, arch)
	if err != nil {
		return Binary{}, err
	}
	if !static {
		return Binary{}, fmt.Errorf("%s is not static; build it with CGO_ENABLED=0", path)
	}
	return s.hashed(path, arch)
}

// CheckStatic refuses a file that is not a static Linux executable for an architecture:
// nothing else runs in an image without other files.
func CheckStatic(path, arch string) error {
	static, err := isStatic(path, arch)
	if err == nil && !static {
		err = fmt.Errorf("%s needs libraries of the system; build it with CGO_ENABLED=0", path)
	}
	return err
}

// WriteBinary writes the running program to w. It is how an image of Deployster
// hands out its binary (see Options.TypesImage).
func WriteBinary(w io.Writer) error {
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the running program: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading the running program: %w", err)
	}
	defer func() { _ = f.Close() }()
	if _, err := io.Copy(w, f); err != nil {
		return fmt.Errorf("copying the running program: %w", err)
	}
	return nil
}

// isStatic reports whether a file is a Linux executable that needs no loader. A
// file for another architecture is an error.
func isStatic(path, arch string) (bool, error) {
	f, err := elf.Open(path)
	var format *elf.FormatError
	if errors.As(err, &format) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, fmt.Errorf("%s is not a Linux executable", path)
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	machines := map[string]elf.Machine{
		"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "arm": elf.EM_ARM, "386": elf.EM_386,
		"ppc64le": elf.EM_PPC64, "riscv64": elf.EM_RISCV, "s390x": elf.EM_S390, "loong64": elf.EM_LOONGARCH,
	}
	if want, known := machines[arch]; known && f.Machine != want {
		return false, fmt.Errorf("%s is for %s, not for %s", path, f.Machine, arch)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return false, nil
		}
	}
	return true, nil
}
