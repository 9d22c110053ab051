package runner

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/schema"
)

// TypeAnswer is what a type answers init, as far as manifests are checked by it.
type TypeAnswer struct {
	Plugs        map[string]protocol.PlugRequest
	ConfigSchema []byte
	Schema       *schema.Schema // nil when the type accepts any configuration
}

// LastAnswer returns what the type behind a reference answered when it was last asked
// by this version, of whichever image that was then. ok is false when none is known.
func LastAnswer(cache InitCache, version, ref string) (answer TypeAnswer, ok bool) {
	text, ok := cache.Get(lastKey(version, ref))
	if !ok {
		return TypeAnswer{}, false
	}
	a := decodeInit(text)
	if a.err != nil {
		return TypeAnswer{}, false
	}
	return TypeAnswer{Plugs: a.output.Plugs, ConfigSchema: a.output.ConfigSchema, Schema: a.schema}, true
}

// lastKey identifies what the type behind a reference answered last.
func lastKey(version, ref string) string {
	sum := sha256.Sum256([]byte("last\x00" + version + "\x00" + ref))
	return hex.EncodeToString(sum[:])
}

// note remembers what a type answered by its reference, for commands that run nothing. One
// resource of each type is enough.
func (r *Runner) note(res *resource, answer []byte) {
	if res.first != nil {
		return
	}
	key := lastKey(r.spec.Version, res.Type)
	if known, ok := r.spec.InitCache.Get(key); !ok || !bytes.Equal(known, answer) {
		r.spec.InitCache.Put(key, answer)
	}
}
