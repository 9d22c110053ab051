package terraform

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/tfplugin"
)

// memory is what is kept of a resource between runs: as much as Terraform has of it in
// its state.
type memory struct {
	SchemaVersion int64           `json:"schema_version"`
	State         json.RawMessage `json:"state"`             // attributes by name, as in a state of Terraform
	Private       []byte          `json:"private,omitempty"` // what only the provider reads
	Identity      json.RawMessage `json:"identity,omitempty"`
	IdentityOf    int64           `json:"identity_version,omitempty"` // the version of its schema
	Tainted       bool            `json:"tainted,omitempty"`          // it was not made completely: it is to be made anew
	Settled       string          `json:"settled,omitempty"`          // what the provider has made, and would change again: see settlement
}

// settlement identifies a configuration, and what there is once it is applied. Some
// providers would change what they have just made each time they are asked, to no effect.
func settlement(s tfplugin.Schema, config, state cty.Value) (string, error) {
	hash := sha256.New()
	for _, v := range []cty.Value{config, state} {
		text, err := ctyjson.Marshal(v, s.Type())
		if err != nil {
			return "", fmt.Errorf("encoding what was applied: %w", err)
		}
		hash.Write(text)
		hash.Write([]byte{0})
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// remembered reads what was kept; nil if nothing was.
func remembered(kept map[string]any) (*memory, error) {
	if len(kept) == 0 {
		return nil, nil
	}
	var m memory
	text, err := json.Marshal(kept)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err == nil && len(m.State) == 0 {
		err = errors.New("it has no state")
	}
	if err != nil {
		return nil, fmt.Errorf("reading what was kept of the resource: %w", err)
	}
	return &m, nil
}

// kept is what is to be kept of a resource: an empty object where there is none.
func kept(s tfplugin.Schema, identities tfplugin.IdentitySchema, now found) (any, error) {
	if !now.there() {
		return object{}, nil
	}
	state, err := ctyjson.Marshal(now.State, s.Type())
	if err != nil {
		return nil, fmt.Errorf("encoding the state of the resource: %w", err)
	}
	m := memory{SchemaVersion: s.Version, State: state, Private: now.Private, Tainted: now.tainted, Settled: now.settled}
	if now.Identity != cty.NilVal && now.Identity.IsWhollyKnown() {
		if m.Identity, err = ctyjson.Marshal(now.Identity, identities.Type); err != nil {
			return nil, fmt.Errorf("encoding the identity of the resource: %w", err)
		}
		m.IdentityOf = identities.Version
	}
	text, err := json.Marshal(m)
	if err == nil && len(text) > protocol.MaxKeep {
		err = fmt.Errorf("its state has %d bytes, at most %d can be kept, so %s is not known to the next run: remove it by hand", len(text), protocol.MaxKeep, cmp.Or(strings.TrimSpace(identity(now.State)), "what was made"))
	}
	return m, err
}

// sameMemory reports whether something is kept already.
func sameMemory(kept map[string]any, value any) bool {
	was, err1 := json.Marshal(kept)
	now, err2 := json.Marshal(value)
	if err1 != nil || err2 != nil {
		return false
	}
	var a, b any
	return json.Unmarshal(was, &a) == nil && json.Unmarshal(now, &b) == nil && reflect.DeepEqual(a, b)
}

var errNoState = errors.New("the provider lost the state of the resource while it read what was kept by another version")

// recall makes of what was kept what the provider knows: null if nothing was.
func recall(s tfplugin.Schema, m *memory, upgrade func(version int64, state json.RawMessage) (cty.Value, error)) (tfplugin.Instance, error) {
	if m == nil {
		return tfplugin.Instance{State: cty.NullVal(s.Type())}, nil
	}
	state, err := upgrade(m.SchemaVersion, m.State)
	if err == nil && state.IsNull() {
		err = errNoState
	}
	return tfplugin.Instance{State: state, Private: m.Private}, err
}
