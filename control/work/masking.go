package work

import (
	"bytes"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/schema"
)

// Masking hides, in a text that is shown of what some revisions carry, what their manifests
// write out at secret places of types that ship, and the files that are included there. Which
// places of other types are secret is not known without their images.
func (t Texts) Masking(revisions ...map[string]string) func(text string) string {
	s := &invoke.Secrets{}
	for _, files := range revisions {
		m := masking{files: files, load: t.Load, secrets: s, hidden: map[string]bool{}}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			// What cannot be loaded cannot be shown either.
			if text, err := t.Load(files[name]); err == nil && !strings.HasPrefix(name, "/") {
				m.manifest(manifest.Source{Name: name, Data: text})
			}
		}
	}
	return s.Mask
}

// masking finds what is secret in what a revision carries.
type masking struct {
	files   map[string]string // SHA-256, by name
	load    func(digest string) ([]byte, error)
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
	outline, err := manifest.Outline(source)
	if err != nil {
		return
	}
	for _, r := range outline.Resources {
		s, err := schemaOf(r.Type, nil)
		if s == nil || err != nil {
			continue
		}
		for _, path := range s.PossibleSecrets(r.Config, expression.IsTemplate) {
			m.hide(source.Data, schema.Within(r.Config, path))
			m.hide(source.Data, r.ForEach) // which each may read
		}
	}
}

// reference is an expression that is a variable and nothing else, in which no secret is
// written out. It is compiled when it is first needed: that takes milliseconds, which
// every start of the program, also in a container, would pay.
var reference = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*\{\{-?\s*[\pL_][\pL\pN_.]*\s*-?\}\}\s*$`)
})

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
	files := filesOf(m.files, m.load)
	e := expression.Over(func(name string) (string, error) {
		read[name] = true
		return files(name)
	})
	u, err := e.Examine(template)
	for name := range m.files {
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
		if text, err := files(name); err == nil {
			m.add(text)
			m.include(text)
		}
	}
}
