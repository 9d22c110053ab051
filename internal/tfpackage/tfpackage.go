// Package tfpackage finds the programs of Terraform's providers: as a file, in a
// directory, which may be a mirror of a registry as `terraform providers mirror` makes
// it, or in a registry.
//
// Nothing of a provider is run here. What archives and registries answer is bounded.
package tfpackage

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/deployster-go/deployster/internal/pattern"
)

// Package is the program of a provider.
type Package struct {
	Name    string // of the provider, such as docker
	Version string // "" if that is not known
	Path    string // of the program

	temporary string // directory to remove; "" is none
}

// Close removes what was unpacked.
func (p Package) Close() error {
	if p.temporary == "" {
		return nil
	}
	return os.RemoveAll(p.temporary)
}

// Finder finds providers for a platform.
type Finder struct {
	OS, Arch string
	Registry string       // base address of the registry that names without a host are of; "" is none
	HTTP     *http.Client // to ask registries
	Temp     string       // where archives are unpacked
}

// programPrefix is what the names of all programs and packages of providers begin with.
const programPrefix = "terraform-provider-"

var (
	namePattern    = pattern.Lazy(`^[a-z0-9]+(-+[a-z0-9]+)*$`)
	versionPattern = pattern.Lazy(`^[0-9]+(\.[0-9]+){0,2}([-+][0-9A-Za-z.+-]+)?$`)
)

// maxProgram bounds the program of a provider, in bytes.
const maxProgram = 4 << 30

// split separates a version from what it is of.
func split(provider string) (of, version string, err error) {
	of, version, _ = strings.Cut(provider, "@")
	if version == "" && strings.Contains(provider, "@") || version != "" && !versionPattern().MatchString(version) {
		return "", "", fmt.Errorf("%q: after the @ there must be a version, such as 3.6.2", provider)
	}
	return of, version, nil
}

// isPath reports whether a provider is given as a path.
func isPath(provider string) bool {
	if strings.HasPrefix(provider, ".") || strings.HasPrefix(provider, "/") {
		return true
	}
	_, err := os.Lstat(provider)
	return err == nil
}

// errMany is of a directory that has several.
var errMany = errors.New("there are several versions: say which with @VERSION")
