package expression

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/expression/python"
)

// read is a name that a template reads, where it does.
type read struct {
	Ref
	tested bool     // "is defined" is asked of it
	keys   []string // constant ones, below the name, in which it is read
	copes  bool     // the template copes with there being nothing of these keys
}

// reference is another template that one includes, imports or extends.
type reference struct {
	at            python.Position
	verb          string
	name          string
	dynamic       bool // the name is known only when it is evaluated
	possible      possible
	ignoreMissing bool
	isolated      bool // it does not see the variables
}

// refer notes another template. Its name is constant as a rule.
func (p *parser) refer(at python.Position, verb string, name expr, ignoreMissing, isolated bool) {
	r := reference{at: at, verb: verb, ignoreMissing: ignoreMissing, isolated: isolated}
	c, ok := name.(*constant)
	if ok {
		r.name, ok = c.value.(string)
	}
	if r.dynamic = !ok; r.dynamic {
		r.possible = possibleNames(name)
	}
	p.references = append(p.references, r)
}

// names finds what a template reads without binding it. A name that is bound
// anywhere in the template counts as bound everywhere, so that nothing is
// reported that might be fine.
type names struct {
	s       *evaluation
	bound   map[string]bool
	visited map[visit]bool
	dynamic bool // another template is read whose name is not known
	possible
}

type visit struct {
	file     string
	isolated bool // it sees no variables, so that it is not checked against them
}

func newNames(s *evaluation) *names {
	n := &names{s: s, bound: map[string]bool{"self": true, "loop": true, "super": true}, visited: map[visit]bool{}}
	for name := range s.e.globals {
		n.bound[name] = true
	}
	return n
}

// usage finds the names that the template needs, by their first use, and all
// that it mentions.
func (s *evaluation) usage(t *template) Usage {
	n := newNames(s)
	var refs []Ref
	index := map[string]int{}
	mentioned, tested := map[string]bool{}, map[string]bool{}
	for _, r := range n.template(t, visit{}) {
		mentioned[r.Name] = true
		tested[r.Name] = tested[r.Name] || r.tested
		i, known := index[r.Name]
		switch {
		case n.bound[r.Name]:
		case known:
			refs[i].Optional = refs[i].Optional && r.Optional
		default:
			index[r.Name] = len(refs)
			refs = append(refs, r.Ref)
		}
	}
	for i := range refs {
		refs[i].Optional = refs[i].Optional || tested[refs[i].Name]
	}
	return Usage{
		Refs: refs, Mentions: slices.Sorted(maps.Keys(mentioned)), Dynamic: n.dynamic,
		Candidates: n.files, Directories: n.directories, Anywhere: n.anywhere,
	}
}

// template returns what a template reads, in the order of the text. What
// another one reads is read where it is included.
func (n *names) template(t *template, here visit) []read {
	maps.Copy(n.bound, t.bound)
	var reads []read
	if !here.isolated {
		reads = slices.Clone(t.reads)
	}
	for _, r := range t.references {
		for _, read := range n.follow(r, here) {
			read.Line, read.Column = r.at.Line, r.at.Column
			reads = append(reads, read)
		}
	}
	slices.SortStableFunc(reads, func(a, b read) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return reads
}

// follow reads another template: its mistakes are mistakes of the one that
// includes it.
func (n *names) follow(r reference, from visit) []read {
	to := visit{r.name, from.isolated || r.isolated}
	if r.dynamic {
		n.dynamic = true
		n.add(r.possible)
		return nil
	}
	if n.visited[to] {
		return nil
	}
	n.visited[to] = true
	t, err := n.s.load(r.name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && r.ignoreMissing:
		return nil
	case err != nil:
		python.Throw(syntaxError(from.file, r.at, "cannot %s %q: %s", r.verb, r.name, err))
	}
	return n.template(t, to)
}
