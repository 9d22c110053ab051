// Package formtest has tests notice when the form of what is kept in files changes, so that it gets
// another version: builds of the same version read each other's files.
package formtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

const ours = "github.com/deployster-go/deployster/"

// Want wants the types of values, and of all that they consist of, to be as they were when a form
// got its version.
func Want(t *testing.T, version int, hash string, values ...any) {
	t.Helper()
	w := writer{seen: map[reflect.Type]bool{}}
	for _, v := range values {
		w.write(reflect.TypeOf(v))
	}
	sum := sha256.Sum256([]byte(w.text.String()))
	assert.Equal(t, hash, hex.EncodeToString(sum[:8]),
		"the form of version %d has changed: raise its constant, and put the new hash here; only where a former build reads the new form, and this one the former, the version may stay", version)
}

// writer writes the shape of types, each named one once.
type writer struct {
	text strings.Builder
	seen map[reflect.Type]bool
}

func (w *writer) write(t reflect.Type) {
	fmt.Fprintf(&w.text, "%s %s ", t.Kind(), t.String())
	if w.seen[t] || t.PkgPath() != "" && !strings.HasPrefix(t.PkgPath(), ours) {
		return
	}
	w.seen[t] = true
	switch t.Kind() {
	case reflect.Struct:
		for field := range t.Fields() {
			fmt.Fprintf(&w.text, "%s %q ", field.Name, field.Tag)
			w.write(field.Type)
		}
	case reflect.Map:
		w.write(t.Key())
		w.write(t.Elem())
	case reflect.Pointer, reflect.Slice, reflect.Array:
		w.write(t.Elem())
	default:
	}
	w.text.WriteString("\n")
}
