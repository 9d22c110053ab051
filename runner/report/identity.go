package report

import (
	"maps"
	"slices"
	"strings"
)

// Identity says which thing in the world a resource manages.
type Identity struct {
	// Key is equal for two resources that manage one thing, whatever manifest declares them; "" is not known.
	Key string `json:"key,omitempty"`

	// Also are the keys of the other things of a resource that manages several.
	Also []string `json:"also,omitempty"`

	// Parts are what identifies it, by name, such as "path" or "plug root". With another value of one of
	// them it is another thing. Values that may not be seen are hashes.
	Parts map[string]string `json:"parts,omitempty"`

	// Former is the identity in the form of former versions, if that differs: what the log has may be of that form.
	Former *Identity `json:"-"`
}

// Names of the parts that say where a thing is.
const (
	PartType     = "type"
	PartEngine   = "engine"    // its address
	PartEngineID = "engine id" // of an engine on another machine that says one
)

// Is reports whether another identity is of the same thing by its key.
func (i Identity) Is(was Identity) bool {
	return was.Key != "" && (was.Key == i.Key || i.Former != nil && was.Key == i.Former.Key)
}

// Known returns Keys with those of the former form.
func (i Identity) Known() []string {
	if i.Former == nil {
		return i.Keys()
	}
	return append(i.Keys(), i.Former.Keys()...)
}

// Elsewhere reports whether another identity is known to be on another engine.
func (i Identity) Elsewhere(other Identity) bool {
	changed := Identity{Parts: map[string]string{PartEngine: i.Parts[PartEngine], PartEngineID: i.Parts[PartEngineID]}}.Differs(other)
	return i.Parts[PartEngine] != "" && len(changed) > 0
}

// Keys returns the keys of all things that the resource manages; none if they are not known.
func (i Identity) Keys() []string {
	if i.Key == "" {
		return nil
	}
	return append([]string{i.Key}, i.Also...)
}

// WithKeys returns the identity with other keys.
func (i Identity) WithKeys(keys []string) Identity {
	i.Key, i.Also = "", nil
	if len(keys) > 0 {
		i.Key, i.Also = keys[0], slices.Clone(keys[1:])
	}
	return i
}

// Without returns the identity without the keys of another one.
func (i Identity) Without(other Identity) Identity {
	keys := other.Known()
	return i.WithKeys(slices.DeleteFunc(i.Keys(), func(key string) bool { return slices.Contains(keys, key) }))
}

// Covers reports whether all things of another identity are of this one, and any is known.
func (i Identity) Covers(other Identity) bool {
	return other.Key != "" && len(other.Without(i).Keys()) == 0
}

// Differs returns the names of the parts, sorted, that have another value now. A part that only one of
// the two has says nothing: it was not known then, or is not known now. An engine is
// the same one if its id is, or its address.
func (i Identity) Differs(now Identity) (names []string) {
	if now.Former != nil {
		former := *now.Former
		if former.Former = nil; len(i.Differs(former)) == 0 {
			return nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(i.Parts)) {
		value, known := now.Parts[name]
		switch {
		case !known || value == i.Parts[name] || name == PartEngineID || otherKey(value, i.Parts[name]):
		case name == PartEngine && i.Parts[PartEngineID] != "" && i.Parts[PartEngineID] == now.Parts[PartEngineID]:
		default:
			names = append(names, name)
		}
	}
	return names
}

// KeyedHash is the text of a secret part: by the id of its key, hashes of different keys are told apart.
func KeyedHash(key, hash string) string { return "hmac:" + key + ":" + hash }

// otherKey reports whether two parts are hashes with different keys, which say nothing of each other.
func otherKey(a, b string) bool {
	kindA, a, _ := strings.Cut(a, ":")
	kindB, b, _ := strings.Cut(b, ":")
	keyA, _, _ := strings.Cut(a, ":")
	keyB, _, _ := strings.Cut(b, ":")
	return kindA == "hmac" && kindB == "hmac" && keyA != keyB
}

// DiffersText returns what Differs found, with both values, for people.
func (i Identity) DiffersText(now Identity) string {
	var parts []string
	for _, name := range i.Differs(now) {
		parts = append(parts, name+" "+i.Parts[name]+" → "+now.Parts[name])
	}
	return strings.Join(parts, ", ")
}

// Text is what identifies a thing, for people: what its type says, else where it is.
func (i Identity) Text() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(i.Parts)) {
		if name != PartType && name != PartEngine && name != PartEngineID {
			parts = append(parts, name+" "+i.Parts[name])
		}
	}
	return strings.Join(parts, ", ")
}

// Owned is something that another manifest manages.
type Owned struct {
	Undeclared
	By OwnedBy

	// Declares says that the manifest still declares it, as far as can be found out here: then it is not
	// taken from it.
	Declares bool

	Claimed bool                 // no run made it
	Open    func() (Made, error) `json:"-"` // what it takes to remove it; nil is not known
}

// OwnedBy is a manifest as the log knows it.
type OwnedBy struct {
	Name      string // that it says it has; "" is none
	Files     []string
	Workspace string
	Machine   string
}

// String names the manifest for people.
func (m OwnedBy) String() string {
	if m.Name != "" {
		return m.Name
	}
	return strings.Join(m.Files, " ")
}
