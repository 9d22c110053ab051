package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/suggest"
)

// checked is what is known of an expression, wherever it stands.
type checked struct {
	expression.Usage
	err error
}

// check looks at every expression once. That takes most of the time of a large
// manifest, so it uses all processors.
func (l *loader) check() map[string]*checked {
	known := map[string]*checked{}
	var texts []string
	for _, r := range l.pending {
		for _, leaf := range r.texts {
			if known[leaf.text] == nil {
				known[leaf.text] = &checked{}
				texts = append(texts, leaf.text)
			}
		}
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(texts)); i = next.Add(1) - 1 {
				c := known[texts[i]]
				c.err = crash.Do("checking an expression", func() (err error) {
					c.Usage, err = l.opts.Evaluator.Examine(texts[i])
					return err
				})
			}
		})
	}
	wg.Wait()
	return known
}

// expressions checks the syntax and the names of all expressions in
// configurations. When a file could not be read, what is not there is no news.
func (l *loader) expressions(broken bool) {
	known := l.check()
	for _, r := range l.pending {
		for _, text := range r.texts {
			c := known[text.text]
			if c.err != nil {
				l.found.add(r.file.failure(text.node, text.path, c.err))
				continue
			}
			l.opts.Usage.add(c.Usage, r.Dependencies)
			var minus []string // what follows the dashes of names that can not be read
			for _, ref := range c.Refs {
				if _, ok := l.opts.Variables[ref.Name]; ok || ref.Optional {
					continue
				}
				if _, ok := r.Dependencies[ref.Name]; ok {
					continue
				}
				if broken && validName.MatchString(ref.Name) && l.manifest.resources[ref.Name] == nil {
					continue
				}
				if slices.Contains(minus, ref.Name) {
					continue
				}
				p, written := l.undefined(r, ref.Name, text.text)
				minus = append(minus, strings.Split(written, "-")[1:]...)
				p.Position = r.file.within(text.node, ref.Line, ref.Column)
				p.Path = pathText(text.path)
				l.found.add(p)
			}
		}
	}
}

// undefined says that a name is not defined, and what was probably meant. When
// that is a name with dashes, it is returned as well.
func (l *loader) undefined(r *pending, name, text string) (Problem, string) {
	what := fmt.Sprintf("%q is not defined", name)
	aliases := slices.Sorted(maps.Keys(r.Dependencies))
	variables := slices.Sorted(maps.Keys(l.opts.Variables))
	if written := cmp.Or(dashed(name, text, aliases), dashed(name, text, variables)); written != "" {
		advice := fmt.Sprintf("call it %q", strings.ReplaceAll(written, "-", "_"))
		return Problem{Message: fmt.Sprintf("%s: in an expression the dash of %q is a minus; %s", what, written, advice)}, written
	}
	resource := name
	if l.manifest.resources[resource] == nil {
		resource = dashed(name, text, l.names())
	}
	switch resource {
	case "":
	case r.Name:
		return Problem{Message: fmt.Sprintf("%q is this resource itself; an expression can use the variables and the resource's dependencies", resource)}, resource
	default:
		for _, alias := range aliases {
			if r.Dependencies[alias] == resource {
				return Problem{Message: fmt.Sprintf("%q is not defined: this dependency is called by its alias; use the alias %q", resource, alias)}, resource
			}
		}
		return Problem{Message: fmt.Sprintf("%q is not defined: it is a resource, but not a dependency of this one; add \"%s: %s\" to dependencies",
			resource, strings.ReplaceAll(resource, "-", "_"), resource)}, resource
	}
	defined := slices.Concat(aliases, variables)
	if len(defined) == 0 {
		return Problem{Message: what + "; nothing is"}, name
	}
	return Problem{Message: what + "; defined are " + enumerate(defined), Hint: suggest.Closest(name, defined)}, name
}

// dashed returns the one of the sorted names that has a dash, begins with name,
// and stands in the text: "my-disk" for my.
func dashed(name, text string, names []string) string {
	prefix, best := name+"-", ""
	first, _ := slices.BinarySearch(names, prefix)
	for _, n := range names[first:] {
		if !strings.HasPrefix(n, prefix) {
			break
		}
		if len(n) > len(best) && strings.Contains(text, n) {
			best = n
		}
	}
	return best
}

// failure puts the error of an expression at its place in the file.
func (f *file) failure(n *yaml.Node, path []string, err error) Problem {
	var where *expression.PathError
	if errors.As(err, &where) {
		for _, key := range where.Path {
			at, value := step(target(n), key, 0)
			if at == nil {
				break
			}
			n, path = value, append(path[:len(path):len(path)], key)
		}
		err = where.Err
	}
	n = target(n)
	p := Problem{Position: f.at(n), Path: pathText(path), Message: err.Error()}
	var syntax *expression.SyntaxError
	var undefined *expression.UndefinedError
	switch {
	case errors.As(err, &syntax) && syntax.File == "":
		p.Position = f.within(n, syntax.Line, syntax.Column)
		p.Message = syntax.Message
	case errors.As(err, &undefined) && undefined.File == "":
		p.Position = f.within(n, undefined.Line, undefined.Column)
		if undefined.Of == "" {
			p.Hint = suggest.Closest(undefined.Name, undefined.Defined)
		}
	}
	return p
}
