package expression

import "slices"

// Reads tells whether any template within v, which is made of maps, lists and
// scalars, refers to one of the names. It fails with a SyntaxError.
func (e *Evaluator) Reads(v any, names ...string) (bool, error) {
	switch v := v.(type) {
	case string:
		refs, err := e.Check(v)
		return slices.ContainsFunc(refs, func(r Ref) bool { return slices.Contains(names, r.Name) }), err
	case []any:
		for _, item := range v {
			if reads, err := e.Reads(item, names...); reads || err != nil {
				return reads, err
			}
		}
	case map[string]any:
		for _, item := range v {
			if reads, err := e.Reads(item, names...); reads || err != nil {
				return reads, err
			}
		}
	}
	return false, nil
}
