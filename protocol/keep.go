package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// MaxKeep bounds what is kept of a resource, in bytes of JSON without white space.
const MaxKeep = 64 << 10

// MaxKeepLine bounds the line with which an action has something kept, in bytes: each
// character of what is kept may be escaped.
const MaxKeepLine = 8 * MaxKeep

// keepLine is the last line of an action that has something kept.
type keepLine struct {
	Keep map[string]any `json:"keep"`
}

// MayBeKeep reports whether a line may be one with which an action has something kept. It
// needs to see no more than the beginning of the line.
func MayBeKeep(line []byte) bool {
	rest := bytes.TrimLeft(line, " \t\r")
	for _, token := range []string{"{", `"keep"`} {
		n := min(len(rest), len(token))
		if string(rest[:n]) != token[:n] {
			return false
		}
		rest = bytes.TrimLeft(rest[n:], " \t\r")
	}
	return true
}

// DecodeKeep reads what is to be kept from the last line that an action prints on stdout:
// a JSON object whose only member is "keep". ok is false where the line is another, which
// is text for people. Errors are of type *AnswerError.
func DecodeKeep(line []byte) (keep map[string]any, ok bool, err error) {
	if !MayBeKeep(line) {
		return nil, false, nil
	}
	if len(line) > MaxKeepLine {
		return nil, true, tooMuchKept(len(line))
	}
	object, err := parseObject(line)
	if _, there := object["keep"]; err != nil || !there || len(object) > 1 {
		return nil, false, nil //nolint:nilerr // it is text
	}
	f := fields{object: object, data: line}
	keep = f.keep()
	if f.err != nil {
		return nil, true, f.err
	}
	return keep, true, nil
}

// EncodeKeep is the line with which an action has something kept, without its end.
func EncodeKeep(keep map[string]any) ([]byte, error) { return json.Marshal(keepLine{keep}) }

// keep reads the member with what is to be kept: nil where there is none, which leaves
// what is kept as it is. Errors show nothing of it, since it may hold secrets.
func (f *fields) keep() map[string]any {
	value, there := f.object["keep"]
	if !there {
		return nil
	}
	object, ok := value.(map[string]any)
	if !ok {
		f.failBare(&AnswerError{Path: "keep", Message: "must be an object, not " + kindOf(value)})
		return nil
	}
	f.known("keep")
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(object); err == nil && text.Len()-1 > MaxKeep { // it ends the line
		f.failBare(tooMuchKept(text.Len() - 1))
	}
	return object
}

func tooMuchKept(size int) *AnswerError {
	return &AnswerError{Path: "keep", Message: fmt.Sprintf("has %d bytes of JSON; at most %d are kept of a resource", size, MaxKeep)}
}

// checkKeep refuses what an answer may not have kept.
func checkKeep(keep map[string]any) error {
	f := fields{object: map[string]any{"keep": keep}}
	f.keep()
	return f.err
}

// lineTracker knows whether what was written ended with a line, so that another can follow.
type lineTracker struct {
	io.Writer
	mu    sync.Mutex
	begun bool // a line that has not ended
}

func (t *lineTracker) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(text) > 0 {
		t.begun = text[len(text)-1] != '\n'
	}
	return t.Writer.Write(text)
}

// keep writes the last line of an action that has something kept; nil is nothing.
func (t *lineTracker) keep(keep map[string]any) error {
	if keep == nil {
		return nil
	}
	line, err := EncodeKeep(keep)
	if err != nil {
		return fmt.Errorf("encoding what is to be kept: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun {
		line = append([]byte("\n"), line...)
	}
	if _, err := t.Writer.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing what is to be kept: %w", err)
	}
	return nil
}
