package inits

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/schema"
)

// Type is what a type answered, as far as manifests are checked by it.
type Type struct {
	Plugs        map[string]protocol.PlugRequest
	ConfigSchema []byte
	Schema       *schema.Schema // nil when the type accepts any configuration
}

// Last returns what the type behind a reference answered when it was last asked
// by this version, of whichever image that was then. ok is false when none is known.
func Last(cache Cache, version, ref string) (t Type, ok bool) {
	text, ok := cache.Get(lastKey(version, ref))
	if !ok {
		return Type{}, false
	}
	a := Decode(text)
	if a.Err != nil {
		return Type{}, false
	}
	return Type{Plugs: a.Output.Plugs, ConfigSchema: a.Output.ConfigSchema, Schema: a.Schema}, true
}

// lastKey identifies what the type behind a reference answered last.
func lastKey(version, ref string) string {
	sum := sha256.Sum256([]byte("last\x00" + version + "\x00" + ref))
	return hex.EncodeToString(sum[:])
}

// Note remembers what the type behind a reference answered, for Last.
func Note(cache Cache, version, ref string, answer []byte) {
	key := lastKey(version, ref)
	if known, ok := cache.Get(key); !ok || !bytes.Equal(known, answer) {
		cache.Put(key, answer)
	}
}
