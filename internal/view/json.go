package view

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/deployster-go/deployster/runner/encoding"
	"github.com/deployster-go/deployster/runner/report"
)

// JSONVersion is the version of the NDJSON that JSON writes. It grows when a
// field changes its meaning or goes; readers ignore fields they do not know.
const JSONVersion = 1

// JSON writes a run as NDJSON: a first line that says which version of what
// follows, then one line per event.
type JSON struct {
	mu  sync.Mutex
	out output
}

// NewJSON writes the first line to w: the version of the format, that of
// Deployster, and the command.
func NewJSON(w io.Writer, command, version string) *JSON {
	j := &JSON{out: output{w: w}}
	j.line(struct {
		Version    int    `json:"version"`
		Deployster string `json:"deployster"`
		Command    string `json:"command"`
	}{JSONVersion, version, command})
	return j
}

// Observe writes the event as one line.
func (j *JSON) Observe(e report.Event) { j.line(encoding.LineOf(e)) }

// Plan writes a plan as one line of type "plan".
func (j *JSON) Plan(p *report.Plan) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := PlanJSON(&j.out, p); err != nil && j.out.err == nil {
		j.out.err = err
	}
}

// SavedPlan writes in which file a plan was saved, as one line of type "saved-plan".
func (j *JSON) SavedPlan(file, digest string, created time.Time) {
	j.line(struct {
		Type      string    `json:"type"`
		File      string    `json:"file"`
		Digest    string    `json:"digest"`
		CreatedAt time.Time `json:"created_at"`
	}{"saved-plan", file, digest, created})
}

// Close returns the first error of writing.
func (j *JSON) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.out.err
}

func (j *JSON) line(v any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	b, err := encode(v)
	if err != nil {
		if j.out.err == nil {
			j.out.err = fmt.Errorf("writing an event as JSON: %w", err)
		}
		return
	}
	j.out.write(b)
}

// encode is v as one line of JSON that is safe to look at: what a terminal
// could take for a command is escaped also where JSON does not ask for it.
func encode(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	var line strings.Builder
	for _, r := range string(b) {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			fmt.Fprintf(&line, "\\u%04x", r)
			continue
		}
		line.WriteRune(r)
	}
	return line.String() + "\n", nil
}
