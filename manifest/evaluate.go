package manifest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/internal/phrase"
)

// Evaluate evaluates an expression that stands nowhere in the manifest, and sees what those of outputs
// see. States are asked for only of what it reads.
func (m *Manifest) Evaluate(template string, s Scope) (any, error) {
	seen := maps.Clone(s.Variables)
	if seen == nil {
		seen = map[string]any{}
	}
	reads, evaluation := mentions(s.Expressions, template), newEvaluation(s)
	for name, declared := range m.seen() {
		seen[name] = nil // so that it is among what is defined
		if !reads(name) {
			continue
		}
		if len(declared) > 1 {
			return nil, fmt.Errorf("%q may be each of %s; rename one of them", name, phrase.List(declared))
		}
		var err error
		if seen[name], err = m.declared[declared[0]].stands("").value(evaluation); err != nil {
			return nil, err
		}
	}
	return s.Expressions.Evaluate(template, seen)
}

// seen is what outputs can read of what is declared, sorted, by how they call it. What is off is
// not defined.
func (m *Manifest) seen() map[string][]string {
	all := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(m.declared)) {
		if x := m.declared[name]; !x.bad && (x.many || x.off == "") {
			all[underscored(name)] = append(all[underscored(name)], name)
		}
	}
	return all
}
