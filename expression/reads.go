package expression

import (
	"slices"

	"github.com/deployster-go/deployster/expression/python"
)

// Reads reports whether any template within v, which is made of maps, slices and
// scalars, refers to one of the names. It fails as Check does; of several
// failures, with the first in the order of sorted keys.
func (e *Evaluator) Reads(v any, names ...string) (bool, error) {
	var within []any
	switch v := v.(type) {
	case string:
		refs, err := e.Check(v)
		return slices.ContainsFunc(refs, func(r Ref) bool { return slices.Contains(names, r.Name) }), err
	case []any:
		within = v
	case map[string]any:
		for _, key := range python.SortedKeys(v) {
			within = append(within, v[key])
		}
	}
	for _, item := range within {
		if reads, err := e.Reads(item, names...); reads || err != nil {
			return reads, err
		}
	}
	return false, nil
}
