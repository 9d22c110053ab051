package diff

import (
	"encoding/json"
	"slices"

	"github.com/deployster-go/deployster/protocol"
)

// Decisive is what of actions is held against a plan. Descriptions are for
// people, and may depend on the moment.
func Decisive(actions []protocol.Action) []protocol.Action {
	bare := slices.Clone(actions)
	for i := range bare {
		bare[i].Description = ""
	}
	return bare
}

// ActionList makes what is decisive of actions comparable part by part.
func ActionList(actions []protocol.Action) map[string]any {
	var list []any
	if text, err := json.Marshal(Decisive(actions)); err != nil || json.Unmarshal(text, &list) != nil {
		return nil // actions are made of text only
	}
	return map[string]any{"actions": list}
}
