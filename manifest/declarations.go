package manifest

import (
	"bytes"

	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/manifest/declaration"
)

// Declarations reads the variables that manifests declare, in the order of declaration. It
// fails with an *Error that holds all that is wrong with them.
func Declarations(sources []Source) ([]*declaration.Variable, error) {
	l := &loader{manifest: &Manifest{}}
	for _, source := range sources {
		if !bytes.Contains(source.Data, []byte(declaration.Key)) {
			continue // most manifests declare none, and to read one takes a while
		}
		root, _ := yamlfile.Open(source.Name, source.Data, manifestFile, &l.found)
		if root != nil && root.Kind == yamlfile.Mapping {
			l.variables(root.Child(declaration.Key))
		}
	}
	return l.manifest.Variables, l.found.Err()
}

// variables reads the section of a manifest.
func (l *loader) variables(n *yamlfile.Node) {
	l.manifest.Variables = declaration.Read(n, l.manifest.Variables, &l.found)
}
