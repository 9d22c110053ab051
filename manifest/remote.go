package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"

	"github.com/deployster-go/deployster/internal/yamlfile"
)

// RemoteModules is the directory of the workspace that holds the files of modules that are elsewhere.
const RemoteModules = ".deployster/modules"

// Remote reports whether the source of a module is elsewhere, and no directory of the workspace.
func Remote(source string) bool {
	return strings.Contains(source, "://") || strings.HasPrefix(source, "git::")
}

// RemoteDir is the directory of the workspace where the files of such a module are, once they were
// fetched. It follows from the source alone, so that a revision finds there what it carries.
func RemoteDir(source string) string {
	sum := sha256.Sum256([]byte(source))
	return path.Join(RemoteModules, hex.EncodeToString(sum[:16]))
}

// remoteRoot is the directory of the remote module that a directory is in; "" is of none.
func remoteRoot(dir string) string {
	below, is := strings.CutPrefix(dir, RemoteModules+"/")
	if !is {
		return ""
	}
	name, _, _ := strings.Cut(below, "/")
	return path.Join(RemoteModules, name)
}

// Call is where a manifest calls a module.
type Call struct {
	Module, Source string
	Position       Position // of the source
}

// Called are the calls of modules in a manifest whose form is right; what is wrong is for Load to report.
func Called(source Source) (calls []Call) {
	var found yamlfile.Report
	root, _ := yamlfile.Open(source.Name, source.Data, manifestFile, &found)
	if root == nil || root.Kind != yamlfile.Mapping || root.Child("modules") == nil {
		return nil
	}
	for _, m := range root.Child("modules").Members {
		if n := m.Child("source"); n != nil && n.Kind == yamlfile.Text {
			calls = append(calls, Call{m.Name, n.Value, n.Position})
		}
	}
	return calls
}
