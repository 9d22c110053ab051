package manifest

import (
	"iter"
	"path"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/manifest/declaration"
)

const notCarried = `includes a file whose name is known only when it is evaluated, so a revision cannot carry it: ` +
	`name the file, a list of files, or begin the name with its directory, as in {% include "conf/" ~ name %}, without ".." behind that`

// Inclusions are what may be included, by the directory of the module that does so, which is ""
// for the manifest itself: the Candidates, Directories and Anywhere of a Usage, by names in it.
type Inclusions map[string]expression.Usage

func (i Inclusions) add(dir string, u expression.Usage) {
	all := i[dir]
	all.Candidates = append(all.Candidates, u.Candidates...)
	all.Directories = append(all.Directories, u.Directories...)
	all.Anywhere = all.Anywhere || u.Anywhere
	i[dir] = all
}

// Anywhere reports whether that may be any file at all.
func (i Inclusions) Anywhere() bool {
	for _, u := range i {
		if u.Anywhere {
			return true
		}
	}
	return false
}

// Includes examines the expressions of a manifest and of the modules that it calls, whatever
// the variables are, and with them every file that they name: the evaluator reads each. What
// they include by names that are known only later is what it returns. It fails with an *Error
// that holds all problems of the files' forms and of their expressions, and those of files
// that could be any.
func Includes(source Source, e *expression.Evaluator) (Inclusions, error) {
	i := &includes{
		loader: &loader{files: e, texts: map[string][]byte{}, manifest: &Manifest{}, declared: map[string]*pending{}},
		all:    Inclusions{},
	}
	i.read(source)
	return i.all, i.found.Err()
}

// includes reads a manifest with its modules, the manifest of each directory once.
type includes struct {
	*loader
	all Inclusions
}

// read reads a manifest, or that of the module of the loader.
func (i *includes) read(source Source) {
	dir := i.module.directory()
	root, _ := yamlfile.Open(source.Name, source.Data, manifestFile, &i.found)
	for text := range expressionsOf(root) {
		u, err := i.files.Within(dir).Examine(text.Value)
		switch {
		case err != nil:
			i.found.Add(Failure(text, err))
		case u.Anywhere:
			i.found.Add(Problem{Position: text.Position, Path: text.Path(), Message: notCarried})
		}
		i.all.add(dir, u)
	}
	if root == nil || root.Kind != yamlfile.Mapping || root.Child("modules") == nil {
		return
	}
	section(root.Child("modules"), "module", i.call)
	for _, p := range i.pending {
		called, ok := i.located(p)
		if !ok || i.texts[called] != nil {
			continue
		}
		text, err := i.text(called)
		if err != nil {
			p.call.sourceAt.Fail("%s", err)
			continue
		}
		sub := &includes{i.within(&Module{Address: p.Name, parent: i.module, call: p.call, dir: called}), i.all}
		sub.read(Source{Name: path.Join(called, ModuleFile), Data: text})
		sub.module.hand(&i.found, &sub.found)
	}
}

// expressionsOf yields the texts of a manifest that are evaluated.
func expressionsOf(root *yamlfile.Node) iter.Seq[*yamlfile.Node] {
	return func(yield func(*yamlfile.Node) bool) {
		if root == nil {
			return
		}
		var evaluated []*yamlfile.Node
		if declared := root.Child(declaration.Key); declared != nil {
			for _, d := range declared.Members {
				if n := d.Child("default"); n != nil {
					evaluated = append(evaluated, n)
				}
			}
		}
		if plugs := root.Child("plugs"); plugs != nil {
			evaluated = append(evaluated, plugs)
		}
		if outputs := root.Child("outputs"); outputs != nil {
			evaluated = append(evaluated, outputs)
		}
		for _, section := range []string{"modules", "resources"} {
			named := root.Child(section)
			if named == nil {
				continue
			}
			for _, r := range named.Members {
				for _, key := range []string{"for_each", "when", "dependencies", "config", "vars"} {
					if n := r.Child(key); n != nil {
						evaluated = append(evaluated, n)
					}
				}
			}
		}
		for _, n := range evaluated {
			for text := range n.Texts() {
				if expression.IsTemplate(text.Value) && !yield(text) {
					return
				}
			}
		}
	}
}
