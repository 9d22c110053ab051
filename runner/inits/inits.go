// Package inits knows what resource types have answered init: it decodes each answer once,
// remembers answers from run to run, and has each question asked once at a time.
package inits

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

// Cache remembers what types answered init. Keys are file names of
// hexadecimal digits; the same key always stands for the same image and
// question. An answer that is lost is asked for again.
type Cache interface {
	Get(key string) (answer []byte, ok bool)
	Put(key string, answer []byte)
}

// Key identifies a question to the type behind an image.
func Key(imageID string, input protocol.InitInput) string {
	text, err := json.Marshal([]any{1, imageID, input})
	if err != nil {
		return "" // it is made of text only
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Answer is what an answer to init means.
type Answer struct {
	Output protocol.InitOutput
	Schema *schema.Schema // nil when the type accepts any configuration
	States *schema.Schema // nil when the type says nothing of its states
	Err    error          // why it means nothing
}

// Answers decodes each answer to init and compiles its schema once, however many
// resources get it, and however many runs that share it. The zero value is ready; it
// is safe for concurrent use.
type Answers struct {
	mu      sync.Mutex
	entries map[[sha256.Size]byte]func() Answer
	asking  map[Question]chan struct{} // closed once the type has been asked
}

// Question is one to a type as one engine has it answered. An engine that does not
// answer keeps nobody waiting who asks another.
type Question struct {
	Engine invoke.Engine
	Key    string
}

// Turn returns at once to the first who asks a question, and to others when that one has
// been answered, or failed: as many as share a question would each start a container for
// it at the same moment. Nobody waits twice. The first calls answered, which is nil to the
// others.
func (a *Answers) Turn(ctx context.Context, q Question) (answered func()) {
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
		a.asking = map[Question]chan struct{}{}
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

// mostAnswers is how many are kept: types answer much the same for all their
// resources.
const mostAnswers = 200

// Decode is what an answer means.
func (a *Answers) Decode(text []byte) Answer {
	key := sha256.Sum256(text)
	a.mu.Lock()
	if a.entries == nil || len(a.entries) >= mostAnswers && a.entries[key] == nil {
		a.entries = map[[sha256.Size]byte]func() Answer{}
	}
	entry := a.entries[key]
	if entry == nil {
		entry = sync.OnceValue(func() Answer { return Decode(text) })
		a.entries[key] = entry
	}
	a.mu.Unlock()
	return entry()
}

// Decode is what an answer means.
func Decode(text []byte) (a Answer) {
	if a.Output, a.Err = protocol.DecodeInit(text); a.Err != nil {
		return a
	}
	if a.Schema, a.Err = compiled("config_schema", a.Output.ConfigSchema); a.Err != nil {
		return a
	}
	a.States, a.Err = compiled("state_schema", a.Output.StateSchema)
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
