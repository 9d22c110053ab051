package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/schema"
)

// InitCache remembers what types answered init. Keys are file names of
// hexadecimal digits; the same key always stands for the same image and
// question. An answer that is lost is asked for again.
type InitCache interface {
	Get(key string) (answer []byte, ok bool)
	Put(key string, answer []byte)
}

// initKey identifies a question to the type behind an image.
func initKey(imageID string, input protocol.InitInput) string {
	text, err := json.Marshal([]any{1, imageID, input})
	if err != nil {
		return "" // it is made of text only
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// initAnswer is what an answer to init means.
type initAnswer struct {
	output protocol.InitOutput
	schema *schema.Schema // nil when the type accepts any configuration
	states *schema.Schema // nil when the type says nothing of its states
	err    error
}

// InitAnswers decodes each answer to init and compiles its schema once, however many
// resources get it, and however many runs that share it. The zero value is ready; it
// is safe for concurrent use.
type InitAnswers struct {
	mu      sync.Mutex
	entries map[[sha256.Size]byte]func() initAnswer
	asking  map[question]chan struct{} // closed once the type has been asked
}

// question is one to a type as one engine has it answered. An engine that does not
// answer keeps nobody waiting who asks another.
type question struct {
	engine invoke.Engine
	key    string
}

// turn returns at once to the first who asks a question, and to others when that one has
// been answered, or failed: as many as share a question would each start a container for
// it at the same moment. Nobody waits twice. The first calls answered, which is nil to the
// others.
func (a *InitAnswers) turn(ctx context.Context, q question) (answered func()) {
	a.mu.Lock()
	if under := a.asking[q]; under != nil {
		a.mu.Unlock()
		select {
		case <-under:
		case <-ctx.Done():
		}
		return nil
	}
	defer a.mu.Unlock()
	if a.asking == nil {
		a.asking = map[question]chan struct{}{}
	}
	ended := make(chan struct{})
	a.asking[q] = ended
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.asking, q)
		close(ended)
	}
}

// mostInitAnswers is how many are kept: types answer much the same for all their
// resources.
const mostInitAnswers = 200

func (a *InitAnswers) decode(text []byte) initAnswer {
	key := sha256.Sum256(text)
	a.mu.Lock()
	if a.entries == nil || len(a.entries) >= mostInitAnswers && a.entries[key] == nil {
		a.entries = map[[sha256.Size]byte]func() initAnswer{}
	}
	entry := a.entries[key]
	if entry == nil {
		entry = sync.OnceValue(func() initAnswer { return decodeInit(text) })
		a.entries[key] = entry
	}
	a.mu.Unlock()
	return entry()
}

func decodeInit(text []byte) (a initAnswer) {
	if a.output, a.err = protocol.DecodeInit(text); a.err != nil {
		return a
	}
	if a.schema, a.err = compiled("config_schema", a.output.ConfigSchema); a.err != nil {
		return a
	}
	a.states, a.err = compiled("state_schema", a.output.StateSchema)
	return a
}

// compiled compiles a schema of an answer, where there is one.
func compiled(member string, raw json.RawMessage) (*schema.Schema, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	s, err := schema.CompileConfig(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", member, err)
	}
	return s, nil
}
