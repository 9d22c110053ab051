// Package masking finds what is secret in what a revision carries: what its manifests write
// out at secret places of types, and the files that are included there.
package masking

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/schema"
)

// Revision is what a revision carries.
type Revision struct {
	Files    map[string]string // SHA-256, by name
	Load     func(digest string) ([]byte, error)
	Included expression.Files                         // reads those of them that may be included
	Schema   func(typ string) (*schema.Schema, error) // of the configurations of a type, as far as it is known
}

// Hide adds what is secret in it to the secrets.
func (r Revision) Hide(secrets *invoke.Secrets) {
	m := masking{Revision: r, secrets: secrets, hidden: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		// What cannot be loaded cannot be shown either.
		if text, err := r.Load(r.Files[name]); err == nil && !strings.HasPrefix(name, "/") {
			m.manifest(manifest.Source{Name: name, Data: text})
		}
	}
}

// masking is the search for what is secret.
type masking struct {
	Revision
	secrets *invoke.Secrets
	hidden  map[string]bool // files whose texts are secret
}

// manifest hides what a file writes out at secret places, if it is a manifest.
func (m *masking) manifest(source manifest.Source) {
	declared, err := manifest.Declarations([]manifest.Source{source})
	if err != nil {
		return
	}
	for _, d := range declared {
		written, _ := d.Default()
		for _, path := range d.Secrets(written) {
			m.hide(source.Data, schema.Within(written, path))
		}
	}
	e := expression.Over(m.Included)
	outline, err := manifest.Outline(source, e)
	if err != nil {
		return
	}
	for _, given := range outline.Secret {
		m.hide(source.Data, given.Written)
	}
	for _, r := range outline.Resources {
		s, err := m.Schema(r.Type)
		if s == nil || err != nil {
			continue
		}
		for _, path := range s.PossibleSecrets(r.Config, expression.IsTemplate) {
			m.hide(source.Data, schema.Within(r.Config, path))
			m.hide(source.Data, r.ForEach) // which each may read
			m.hide(source.Data, r.Made(e, path...))
		}
	}
}

// reference is an expression that is a variable and nothing else, in which no secret is
// written out.
var reference = pattern.Lazy(`^\s*\{\{-?\s*[\pL_][\pL\pN_.]*\s*-?\}\}\s*$`)

func (m *masking) hide(source []byte, value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, part := range value {
			m.hide(source, part)
		}
	case []any:
		for _, part := range value {
			m.hide(source, part)
		}
	case string:
		if reference().MatchString(value) {
			return
		}
		m.add(value)
		m.add(strings.ReplaceAll(value, "'", "''")) // as YAML has it between single quotes
		if !bytes.Contains(source, []byte(value)) { // it is folded
			for _, word := range strings.Fields(value) {
				m.add(word)
			}
		}
		if expression.IsTemplate(value) {
			m.include(value)
		}
	default:
		m.add(value)
	}
}

func (m *masking) add(value any) { m.secrets.Add(value, [][]string{{}}) }

// include hides the files that a template may include, with all that these include.
func (m *masking) include(template string) {
	read := map[string]bool{}
	e := expression.Over(func(name string) (string, error) {
		read[name] = true
		return m.Included(name)
	})
	u, err := e.Examine(template)
	for name := range m.Files {
		within := func(directory string) bool {
			return strings.HasPrefix(name, strings.TrimPrefix(path.Clean(directory)+"/", "./"))
		}
		named := func(candidate string) bool { return path.Clean(candidate) == name }
		if strings.HasPrefix(name, "/") || m.hidden[name] {
			continue
		}
		if !read[name] && !slices.ContainsFunc(u.Candidates, named) && !slices.ContainsFunc(u.Directories, within) && (err != nil || !u.Anywhere) {
			continue
		}
		m.hidden[name] = true
		if text, err := m.Included(name); err == nil {
			m.add(text)
			m.include(text)
		}
	}
}
