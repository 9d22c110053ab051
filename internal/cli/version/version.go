// Package version knows the version of this binary.
package version

import (
	"runtime/debug"
	"strings"
)

// Current is the module's version as it was built, or "dev".
func Current() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return releaseVersion
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}

// releaseVersion is the version of binaries that were not built as a module at
// a version.
const releaseVersion = "0.1.0-dev"
