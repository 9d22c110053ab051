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

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// checked is what is known of an expression, wherever it stands.
type checked struct {
	expression.Usage
	err error
}

// check examines every expression once. That takes most of the time of a large
// manifest, so it uses all processors.
func (l *loader) check() map[string]*checked {
	known := map[string]*checked{}
	var texts []string
	for _, r := range l.pending {
		for _, n := range r.texts {
			if known[n.Value] == nil {
				known[n.Value] = &checked{}
				texts = append(texts, n.Value)
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
// configurations. When a file could not be read, what is missing is not reported.
func (l *loader) expressions(broken bool) {
	known := l.check()
	for _, r := range l.pending {
		mentioned := map[string]bool{}
		for _, text := range r.texts {
			c := known[text.Value]
			for _, ref := range c.Refs {
				mentioned[ref.Name] = true
			}
			if c.err != nil && l.found.Full() {
				l.found.Add(Problem{})
				continue
			}
			if c.err != nil {
				l.found.Add(Failure(text, c.err))
				continue
			}
			l.opts.Usage.Add(c.Usage, r.Dependencies)
			if !l.opts.Partly {
				l.references(r, text, c.Refs, broken)
			}
		}
		for _, alias := range r.aliases {
			if why, off := r.off[alias.Name]; off && r.when == nil && !mentioned[alias.Name] {
				alias.Fail("%s; give this one a when, too, or do not let it depend on that", why)
			}
		}
	}
}

// references reports the names in a text that are not defined, and whether there are none.
func (l *loader) references(r *pending, text *yamlfile.Node, refs []expression.Ref, broken bool) (ok bool) {
	ok = true
	var minus []string // what follows the dashes of names that cannot be read
	for _, ref := range refs {
		variable := l.isVariable(ref.Name)
		_, alias := r.Dependencies[ref.Name]
		why, off := r.off[ref.Name]
		each := ref.Name == eachName && r.forEach != nil
		unread := broken && validName().MatchString(ref.Name) && l.declared[ref.Name] == nil
		if variable || alias && !off || each || unread || ref.Optional || slices.Contains(minus, ref.Name) {
			continue
		}
		ok = false
		if l.found.Full() {
			l.found.Add(Problem{})
			continue
		}
		var p Problem
		if off {
			p.Message = fmt.Sprintf("%s; give this one a when, too, or ask whether %q is defined", why, ref.Name)
		} else {
			var written string
			p, written = l.undefined(r, ref.Name, text.Value)
			minus = append(minus, strings.Split(written, "-")[1:]...)
		}
		p.Position = within(text, ref.Line, ref.Column)
		p.Path = text.Path()
		l.found.Add(p)
	}
	return ok
}

// undefined says that a name is not defined, and what was probably meant. When
// that is a name with dashes, it is returned as well.
func (l *loader) undefined(r *pending, name, text string) (Problem, string) {
	what := fmt.Sprintf("%.60q is not defined", name)
	if name == eachName {
		return Problem{Message: what + "; it is only where the resource has for_each"}, name
	}
	aliases := slices.Sorted(maps.Keys(r.Dependencies))
	variables := l.variableNames()
	if written := cmp.Or(dashed(name, text, aliases), dashed(name, text, variables)); written != "" {
		advice := fmt.Sprintf("call it %q", strings.ReplaceAll(written, "-", "_"))
		return Problem{Message: fmt.Sprintf("%s: in an expression the dash of %q is a minus; %s", what, written, advice)}, written
	}
	resource := name
	if l.declared[resource] == nil {
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
	return Problem{Message: what + "; defined are " + phrase.List(defined), Hint: suggest.Closest(name, defined)}, name
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

// Failure puts the error of an expression at its place in the file.
func Failure(n *yamlfile.Node, err error) Problem {
	var where *expression.PathError
	if errors.As(err, &where) {
		for _, key := range where.Path {
			part := n.Child(key)
			if part == nil {
				break
			}
			n = part
		}
		err = where.Err
	}
	p := Problem{Position: n.Position, Path: n.Path(), Message: err.Error()}
	var syntax *expression.SyntaxError
	var undefined *expression.UndefinedError
	switch {
	case errors.As(err, &syntax) && syntax.File == "":
		p.Position = within(n, syntax.Line, syntax.Column)
		p.Message = syntax.Message
	case errors.As(err, &undefined) && undefined.File == "":
		p.Position = within(n, undefined.Line, undefined.Column)
		if undefined.Of == "" {
			p.Hint = suggest.Closest(undefined.Name, undefined.Defined)
		}
	}
	return p
}

// within returns where in the file a place within a text is; line and column,
// from 1, are those of the text.
func within(n *yamlfile.Node, line, column int) Position {
	if line < 1 {
		return n.Position
	}
	offset := 0
	for _, r := range n.Value {
		if line == 1 {
			if column--; column <= 0 {
				break
			}
		}
		if r == '\n' {
			if line == 1 {
				break
			}
			line--
		}
		offset++
	}
	if at, ok := n.Inside(offset); ok {
		return at
	}
	return n.Position
}
