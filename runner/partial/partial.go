// Package partial resolves configurations of which a part depends on what is not known yet.
package partial

import (
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
)

// Resolver resolves texts. A text that depends on what is not known is protocol.Unknown as a
// whole.
type Resolver struct {
	Waits func(text string) (bool, error)             // whether it reads what is not known wholly
	Known func(text string) (any, error)              // what one comes to that does not
	Tried func(text string, instead any) (any, error) // what one comes to with something in the place of what is not known
}

// Resolve resolves a value, text by text.
func (r Resolver) Resolve(part any) (any, error) {
	switch part := part.(type) {
	case map[string]any:
		c := make(map[string]any, len(part))
		for key, e := range part {
			v, err := r.Resolve(e)
			if err != nil {
				return nil, err
			}
			c[key] = v
		}
		return c, nil
	case []any:
		c := make([]any, len(part))
		for i, e := range part {
			v, err := r.Resolve(e)
			if err != nil {
				return nil, err
			}
			c[i] = v
		}
		return c, nil
	case string:
		if !expression.IsTemplate(part) {
			return part, nil
		}
		waits, err := r.Waits(part)
		switch {
		case err != nil:
			return nil, err
		case waits:
			return r.tried(part), nil
		}
		return r.Known(part)
	default:
		return part, nil
	}
}

// tried resolves a text that reads what is not known wholly. That is found out by trying: it is
// known where it comes to the same whatever is in the places that are not.
func (r Resolver) tried(text string) any {
	var known any
	for i, instead := range []any{"not known", "not known before", "", nil, true, false, 1, []any{}, map[string]any{}} {
		value, err := r.Tried(text, instead)
		if err != nil || i > 0 && !diff.Identical(known, value) {
			return protocol.Unknown{}
		}
		known = value
	}
	return known
}
