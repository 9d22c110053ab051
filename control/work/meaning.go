package work

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"sync"

	"github.com/deployster-go/deployster/internal/planfile"
)

// Meaning returns the runs.Options.Meaning of an input. It covers what the
// manifest says of a resource and of all it depends on, the plugs, and the
// variables.
func (in *Input) Meaning() func(salt, resource string) string {
	said := map[string]string{}
	for _, r := range in.Manifest.Resources { // each after all it depends on
		text := r.Hash()
		for _, name := range in.Manifest.Dependencies(r.Name) {
			text += " " + said[name]
		}
		sum := sha256.Sum256([]byte(text))
		said[r.Name] = hex.EncodeToString(sum[:])
	}
	shared := map[string]any{}
	maps.Copy(shared, in.Variables)
	for name := range in.Builtin {
		delete(shared, name)
	}
	for _, p := range in.Manifest.Plugs {
		shared["plug "+p.Name] = in.Below(p.Path) // no variable has a space in its name
	}
	var mu sync.Mutex
	salted := map[string]string{} // shared, by salt
	return func(salt, resource string) string {
		mu.Lock()
		defer mu.Unlock()
		if _, known := salted[salt]; !known {
			hash, err := planfile.Salt(salt).Fingerprint(shared)
			if err != nil {
				return "" // a variable that JSON cannot express
			}
			salted[salt] = hash
		}
		meaning, err := planfile.Salt(salt).Fingerprint([]string{said[resource], salted[salt]})
		if err != nil {
			return ""
		}
		return meaning
	}
}
