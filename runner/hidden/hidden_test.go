package hidden_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/runner/hidden"
)

type object = map[string]any

func TestWhatIsNotWantedAnyMoreIsFormer(t *testing.T) {
	for name, tc := range map[string]struct{ was, wanted, former any }{
		"a text":               {"old", "new", "old"},
		"lines of a text":      {"a\nold\nb", "a\nb", "old"},
		"items of a list":      {[]any{"a", "old"}, []any{"a", "new"}, []any{"old"}},
		"the order of items":   {[]any{"b", "a"}, []any{"a", "b"}, []any(nil)},
		"another form":         {"old", []any{"new"}, "old"},
		"what is the same":     {"a", "a", ""},
		"what was not there":   {nil, "new", nil},
		"members of an object": {object{"kind": "Secret", "key": "old"}, object{"kind": "Secret", "key": "new"}, object{"key": "old"}},
		"members of an item": {
			[]any{object{"kind": "Secret", "data": object{"a": "old", "b": "same"}}},
			[]any{object{"kind": "Secret", "data": object{"a": "new", "b": "same"}}},
			[]any{object{"data": object{"a": "old"}}},
		},
		"an item at another place": {
			[]any{object{"kind": "Secret", "key": "old"}}, []any{"first", object{"kind": "Secret", "key": "new"}},
			[]any{object{"kind": "Secret", "key": "old"}},
		},
		"an item too many": {[]any{"a", object{"key": "old"}}, []any{"a"}, []any{object{"key": "old"}}},
	} {
		assert.Equal(t, tc.former, hidden.Former(tc.was, tc.wanted), name)
	}
}
