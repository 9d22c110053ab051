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

	// ByAddress are Keys with the address of the engine in the place of its id, in the same order; none if these are
	// the same. A run that cannot find out the id knows the things by them.
	ByAddress []string `json:"by_address,omitempty"`

	// Lost are the keys of things that the resource managed and that another manifest has by now.
	Lost []string `json:"lost,omitempty"`

	// Parts are what identifies it, by name, such as "path" or "plug root". With another value of one of
	// them it is another thing. Values that may not be seen are hashes.
	Parts map[string]string `json:"parts,omitempty"`

	// Mark is the identity as runs of steps on hosts record it, see Same and Differ; "" is not known, or not asked for.
	Mark string `json:"-"`

	// Former is the identity in the form of former versions, if that differs: what the log has may be of that form.
	Former *Identity `json:"-"`
}

// Names of the parts that say where a thing is.
const (
	PartType     = "type"
	PartEngine   = "engine"    // its address
	PartEngineID = "engine id" // of an engine on another machine that says one
)

// ThisMachine is the PartEngine of the engine of the machine on which a run is.
const ThisMachine = "this machine"

// addressed is what a key by the address of an engine begins with in Recorded, if the id of that engine is known, too.
const addressed = "address:"

// Is reports whether another identity is of the same thing by its key.
func (i Identity) Is(was Identity) bool {
	if was.Key == "" || i.Key == "" {
		return false
	}
	known := i.Forms()[0]
	return slices.Contains(known, was.Key) || len(was.ByAddress) > 0 && slices.Contains(known, addressed+was.ByAddress[0])
}

// Known returns all keys by which Recorded keys are of the same things.
func (i Identity) Known() []string { return slices.Concat(i.Forms()...) }

// Forms returns Known of each thing. An engine whose id is known is no other one of the same address.
func (i Identity) Forms() [][]string {
	asks := i.Parts[PartEngineID] == "" && i.Parts[PartEngine] != "" && i.Parts[PartEngine] != ThisMachine
	var former []string
	if i.Former != nil {
		former = i.Former.Keys()
	}
	var all [][]string
	for n, key := range i.Keys() {
		forms := []string{key}
		if n < len(i.ByAddress) {
			forms = append(forms, i.ByAddress[n])
		} else if asks {
			forms = append(forms, addressed+key)
		}
		if n < len(former) {
			forms = append(forms, former[n])
		}
		all = append(all, forms)
	}
	return all
}

// Recorded returns the keys by which the log finds the things.
func (i Identity) Recorded() []string {
	keys := i.Keys()
	for _, key := range i.ByAddress {
		keys = append(keys, addressed+key)
	}
	return keys
}

// Locks returns the keys that runs lock which do something with the things: two that know one thing have one in common.
func (i Identity) Locks() []string { return append(i.Keys(), i.ByAddress...) }

// Shares reports whether a thing of another identity is one of this one.
func (i Identity) Shares(other Identity) bool {
	known := i.Known()
	return slices.ContainsFunc(other.Recorded(), func(key string) bool { return slices.Contains(known, key) })
}

// Replaced reports whether another engine answers now by the address of the former one.
func (i Identity) Replaced(now Identity) bool {
	was, is := i.Parts[PartEngineID], now.Parts[PartEngineID]
	return was != "" && is != "" && was != is && i.Parts[PartEngine] == now.Parts[PartEngine]
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
	i.Key, i.Also, i.ByAddress = "", nil, nil
	if len(keys) > 0 {
		i.Key, i.Also = keys[0], slices.Clone(keys[1:])
	}
	return i
}

// Without returns the identity without the things of another one.
func (i Identity) Without(other Identity) Identity {
	known := other.Known()
	var keys, addresses []string
	for n, key := range i.Keys() {
		address := ""
		if n < len(i.ByAddress) {
			address = i.ByAddress[n]
		}
		if slices.Contains(known, key) || slices.Contains(known, addressed+address) {
			continue
		}
		if keys = append(keys, key); address != "" {
			addresses = append(addresses, address)
		}
	}
	rest := i.WithKeys(keys)
	rest.ByAddress = addresses
	return rest
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
