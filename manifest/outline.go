package manifest

import "github.com/deployster-go/deployster/internal/yamlfile"

// Outline is the resources of a manifest as they are written, whatever the variables are:
// neither what they depend on is known, nor the plugs. What is wrong with the form of the
// file is an *Error.
func Outline(source Source) (*Manifest, error) {
	l := &loader{manifest: &Manifest{plugs: map[string]*Plug{}, resources: map[string]*Resource{}}}
	l.manifest.Files = []string{source.Name}
	root, _ := yamlfile.Open(source.Name, source.Data, manifestFile, &l.found)
	if root != nil && root.Kind == yamlfile.Mapping {
		if n := root.Child("resources"); n != nil {
			section(n, "resource", l.resource)
		}
	}
	return l.manifest, l.found.Err()
}

// Written are the values of a manifest in which expressions are evaluated, as they are
// written.
func Written(source Source) []any {
	var found yamlfile.Report
	root, _ := yamlfile.Open(source.Name, source.Data, manifestFile, &found)
	var all []any
	for text := range expressionsOf(root) {
		all = append(all, text.Value)
	}
	return all
}
