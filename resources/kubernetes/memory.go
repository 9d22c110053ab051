package kubernetes

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/protocol"
)

// memory is what is kept of a resource: the objects that it has applied, or is about to. So those
// that are no longer declared are found, and an object that another took the place of is not
// taken for ours.
type memory struct {
	Server  string       `json:"server,omitempty"`
	Objects []remembered `json:"objects,omitempty"`
}

// remembered is an object.
type remembered struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`    // "" until it was seen after it was applied
	Fields     []byte `json:"fields,omitempty"` // hashes of the names of those that the resource has managed, and still declares
}

func (r remembered) key() key { return key{groupOf(r.APIVersion), r.Kind, r.Namespace, r.Name} }

// remember reads what was kept.
func remember(kept map[string]any) (memory, error) {
	var m memory
	text, err := json.Marshal(kept)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, fmt.Errorf("what is kept of the resource cannot be read: %w", err)
	}
	return m, nil
}

// of is what is remembered of an object.
func (m memory) of(k key) remembered {
	for _, r := range m.Objects {
		if r.key() == k {
			return r
		}
	}
	return remembered{}
}

// put remembers an object instead of what was remembered of it.
func (m *memory) put(r remembered) {
	i := slices.IndexFunc(m.Objects, func(known remembered) bool { return known.key() == r.key() })
	if i < 0 {
		m.Objects = append(m.Objects, r)
		return
	}
	m.Objects[i] = r
}

// bounded is the memory as it fits into what may be kept: names of fields are the first that go,
// those of the objects with the most of them before others.
func (m memory) bounded() (memory, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return m, fmt.Errorf("encoding what is to be kept: %w", err)
	}
	over := len(text) - protocol.MaxKeep
	if over <= 0 {
		return m, nil
	}
	m.Objects = slices.Clone(m.Objects)
	largest := make([]int, len(m.Objects))
	for i := range largest {
		largest[i] = i
	}
	slices.SortStableFunc(largest, func(a, b int) int { return len(m.Objects[b].Fields) - len(m.Objects[a].Fields) })
	for _, i := range largest {
		if size := len(m.Objects[i].Fields); size > 0 {
			over -= len(`,"fields":""`) + base64.StdEncoding.EncodedLen(size)
		}
		if m.Objects[i].Fields = nil; over <= 0 {
			return m, nil
		}
	}
	return m, fmt.Errorf("%d objects are more than can be kept of one resource: declare them in several", len(m.Objects))
}

// hashSize is how much is kept of the hash of a field's name: what is kept has a bound, and that
// two of one object are alike only means that drift in one of them is healed unasked.
const hashSize = 6

func hashOf(field string) [hashSize]byte {
	sum := sha256.Sum256([]byte(field))
	return [hashSize]byte(sum[:hashSize])
}

// managed reports whether the resource has managed a field.
func (r remembered) managed(field string) bool {
	sum := hashOf(field)
	for known := range slices.Chunk(r.Fields, hashSize) {
		if slices.Equal(known, sum[:]) {
			return true
		}
	}
	return false
}

// fieldsOf are the fields that are to be remembered: those that are managed by now, and those
// that were and are still declared.
func fieldsOf(before remembered, managed, declared []string) []byte {
	all := map[[hashSize]byte]bool{}
	for _, field := range managed {
		all[hashOf(field)] = true
	}
	for _, field := range declared {
		if before.managed(field) {
			all[hashOf(field)] = true
		}
	}
	var sorted [][hashSize]byte
	for sum := range all {
		sorted = append(sorted, sum)
	}
	slices.SortFunc(sorted, func(a, b [hashSize]byte) int { return slices.Compare(a[:], b[:]) })
	var fields []byte
	for _, sum := range sorted {
		fields = append(fields, sum[:]...)
	}
	return fields
}
