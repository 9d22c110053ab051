package expression

import (
	"slices"
	"strings"

	"github.com/deployster-go/deployster/expression/python"
)

// Path is what a template reads of a name that it does not bind itself: the value below
// constant keys, of which there is at least one.
type Path struct {
	Name         string
	Keys         []string
	Line, Column int // from 1
}

// String is how a template may write it.
func (p Path) String() string {
	text := p.Name
	for _, key := range p.Keys {
		if strings.ContainsAny(key, "-. ") {
			text += "[" + python.Quote(key) + "]"
		} else {
			text += "." + key
		}
	}
	return text
}

// Paths are what a template, with what it includes by constant names, reads of some names
// and cannot do without. Those are not among them below which it copes with there being
// nothing, or of which it also reads more: it may ask that first. It fails as Check does.
func (e *Evaluator) Paths(src string, names ...string) (all []Path, err error) {
	if !IsTemplate(src) {
		return nil, nil
	}
	defer python.RecoverTo(&err)
	s := e.begin(nil)
	n := newNames(s)
	var reads []read
	for _, r := range n.template(e.template(src), visit{}) {
		if slices.Contains(names, r.Name) {
			reads = append(reads, r)
		}
	}
	for _, r := range reads {
		covered := func(other read) bool {
			above := len(other.keys) < len(r.keys) || other.copes && len(other.keys) == len(r.keys)
			return other.Name == r.Name && above && slices.Equal(other.keys, r.keys[:len(other.keys)])
		}
		if !n.bound[r.Name] && !slices.ContainsFunc(reads, covered) && len(r.keys) > 0 {
			all = append(all, Path{Name: r.Name, Keys: slices.Clone(r.keys), Line: r.Line, Column: r.Column})
		}
	}
	return all, nil
}
