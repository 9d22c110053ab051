// Package taken recognizes what runs manage already, so that nothing is adopted under a second name:
// whoever destroys the one would take what is the other's.
package taken

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/runner/report"
)

// Thing is what a run made or adopted, with what is kept of it.
type Thing struct {
	report.Undeclared
	Kept map[string]any

	Ours      bool // it is of the manifests that adopt
	Elsewhere bool // it was made on another machine, so that its paths say nothing of what is here
}

// Refuse says why this is not adopted as something else.
func (t Thing) Refuse() error {
	of := ""
	if t.Declared.File != "" {
		of = " of " + t.Declared.File
	}
	remedy := ""
	if t.Ours {
		remedy = `where only the name is another, write it into "moved"; else `
	}
	return fmt.Errorf(`run %s manages it already, as %s%s, and who destroys that would destroy this: %srun "deployster state forget %[2]s" first`,
		t.Run, t.Name, of, remedy)
}

// Things are found by what they are recognized by.
type Things struct{ by map[string]Thing }

// Add adds one; configured identifies it by its configuration, where that is known to, else it is "".
func (all *Things) Add(t Thing, configured string) {
	if all.by == nil {
		all.by = map[string]Thing{}
	}
	if configured != "" && !t.Elsewhere {
		all.by[configured] = t
	}
	if mark := Mark(t.Type, t.Kept); mark != "" {
		all.by[mark] = t
	}
}

// Find finds what is one thing with a resource of a name, by its configuration or by its Mark; either may
// be "".
func (all *Things) Find(name, configured, kept string) (Thing, bool) {
	for _, by := range []string{configured, kept} {
		if t, known := all.by[by]; known && by != "" && t.Name != name {
			return t, true
		}
	}
	return Thing{}, false
}

// Mark identifies a thing by what the types of an image keep of it, whatever the version of that is; "" is
// not at all.
func Mark(ref string, keep map[string]any) string {
	text, err := json.Marshal(keep) // members are in order
	if len(keep) == 0 || err != nil {
		return ""
	}
	return "kept\x00" + Image(ref) + "\x00" + string(text)
}

// Image is the name of an image without its tag and its digest.
func Image(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	if tag := strings.LastIndexByte(ref, ':'); tag > strings.LastIndexByte(ref, '/') {
		ref = ref[:tag]
	}
	return ref
}
