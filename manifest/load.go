package manifest

import (
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/manifest/declaration"
	"github.com/deployster-go/deployster/manifest/usage"
	"github.com/deployster-go/deployster/schema"
)

// Options is what a manifest is read with.
type Options struct {
	Variables map[string]any
	Texts     map[string]any // those of the variables whose type nobody declares, with numbers and truth values as they are written; see Resource.Fit
	Evaluator *expression.Evaluator
	Workspace string           // absolute; relative paths of plugs are below it
	Home      string           // what ~ stands for; "" is not known
	Usage     *usage.Variables // notes which variables are read; may be nil
	Partly    bool             // only some of the variables are known: names that are not defined are no problem

	Secret func(text string) bool // whether a text holds what may not be shown; may be nil
	Hide   func(value any)        // is called with each value that a module is given and that may not be shown, before it is used; may be nil
}

// Load reads several files as one manifest. It fails with an *Error that holds
// every problem of all of them.
func Load(sources []Source, opts Options) (*Manifest, error) {
	l := &loader{
		opts:     opts,
		patterns: schema.NewPatterns(maxPatterns),
		manifest: &Manifest{plugs: map[string]*Plug{}, resources: map[string]*Resource{}},
		declared: map[string]*pending{}, files: opts.Evaluator, texts: map[string][]byte{}, count: new(int),
	}
	if len(sources) == 0 {
		return nil, &Error{Problems: []Problem{{Message: "no manifest is given"}}}
	}
	explicit := false // "resources:" is written in a file
	broken := false
	for _, source := range sources {
		l.manifest.Files = append(l.manifest.Files, source.Name)
		root, ok := yamlfile.Open(source.Name, source.Data, manifestFile, &l.found)
		broken = broken || !ok
		if root != nil {
			explicit = l.document(root) || explicit
		}
	}
	if len(l.manifest.Resources) == 0 && !explicit && !broken && l.found.Empty() {
		l.found.Add(Problem{Position: Position{File: sources[0].Name}, Message: "there are no resources; a manifest needs a mapping resources"})
	}
	l.depend(broken)
	l.expand()
	l.expressions(broken)
	l.outputs(broken)
	if !broken {
		l.checkGiven()
		l.checkMoves()
	}
	if err := l.found.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(l.manifest.Variables, func(a, b *declaration.Variable) int { return strings.Compare(a.Name, b.Name) })
	return l.manifest, nil
}

// maxPatterns is how many instructions the regular expressions of all plugs may
// have together. Each is matched with every name and type, and matching takes
// at most that many steps for each character.
const maxPatterns = 100_000

type loader struct {
	opts     Options
	patterns *schema.Patterns // the regular expressions of plugs
	found    yamlfile.Report
	manifest *Manifest
	declared map[string]*pending
	pending  []*pending // the same, in the order of declaration
	sorted   []string   // names of resources

	module *Module               // that is read; nil is the manifest itself
	chain  []string              // directories of the modules around what is read
	files  *expression.Evaluator // of the manifest itself
	texts  map[string][]byte     // manifests of modules, by directory
	count  *int                  // resources that were made, of all modules
}

// pending is a resource, or the call of a module, whose dependencies and expressions are still to be
// checked.
type pending struct {
	*Resource
	aliases []*yamlfile.Node // of its dependencies
	texts   []*yamlfile.Node // of its configuration, those with expressions

	forEach, when *yamlfile.Node          // nil is not given
	all           []Each                  // what for_each comes to
	call          *call                   // nil is a resource
	off           map[string]string       // aliases of what is off, for an instance at least, with why
	early         map[*yamlfile.Node]bool // whether what is evaluated early can be
}

// document reads one file and reports whether it has a section of resources.
func (l *loader) document(root *yamlfile.Node) (resources bool) {
	if root.Kind != yamlfile.Mapping {
		root.Fail("a manifest must be a mapping with the keys variables, plugs and resources, not %s", KindOf(root))
		return false
	}
	sections, _ := root.Fields("a manifest", nameKey, declaration.Key, "plugs", "modules", "resources", "outputs", movedKey)
	l.name(sections[nameKey])
	l.variables(sections[declaration.Key])
	if n := sections["plugs"]; n != nil {
		section(n, "plug", l.plug)
	}
	if n := sections["modules"]; n != nil {
		section(n, "module", l.call)
	}
	if n := sections["resources"]; n != nil {
		section(n, "resource", l.resource)
	}
	if n := sections["outputs"]; n != nil {
		names(n, "output", l.output)
	}
	l.moves(sections[movedKey])
	return sections["resources"] != nil || sections["modules"] != nil
}

const nameKey = "name"

// name reads the name of the manifest. That of a module says nothing where it is one.
func (l *loader) name(n *yamlfile.Node) {
	if n == nil || n.Kind == yamlfile.Nothing {
		return
	}
	text, ok := readText(n, "the name of the manifest")
	switch {
	case !ok || l.module != nil:
	case !validName().MatchString(text):
		n.Fail("%q cannot be the name of a manifest: %s", text, nameRule)
	case l.manifest.Name != "" && l.manifest.Name != text:
		n.Fail("the files of one manifest have different names, %s and %s: leave one of them out", l.manifest.Name, text)
	default:
		l.manifest.Name = text
	}
}

// section reads a mapping of names to things, which are mappings.
func section(n *yamlfile.Node, thing string, read func(*yamlfile.Node)) {
	names(n, thing, func(m *yamlfile.Node) {
		if !validName().MatchString(m.Name) {
			m.FailName("%q cannot be the name of a %s: %s", m.Name, thing, nameRule)
		}
		if m.Kind != yamlfile.Mapping {
			m.Fail("a %s must be a mapping, not %s", thing, KindOf(m))
			return
		}
		read(m)
	})
}

// names reads a mapping of names to things.
func names(n *yamlfile.Node, thing string, read func(*yamlfile.Node)) {
	switch n.Kind {
	case yamlfile.Nothing:
		return
	case yamlfile.Mapping:
	default:
		n.Fail("must be a mapping of names to %ss, not %s", thing, KindOf(n))
		return
	}
	for _, m := range n.Members {
		read(m)
	}
}

// names are those of all resources, sorted. It is called when all are known.
func (l *loader) names() []string {
	if l.sorted == nil {
		l.sorted = slices.Sorted(maps.Keys(l.declared))
	}
	return l.sorted
}
