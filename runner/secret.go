package runner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/deployster-go/deployster/protocol"
)

const masked = "(secret)"

// shortestSecret is the length from which a secret is looked for in any text.
// Shorter ones would blank out half of what people read; those are hidden only
// where they stand in the configuration.
const shortestSecret = 4

// secrets are the values that configurations marked writeOnly, collected as
// they become known, and hidden in all text that leaves the runner.
type secrets struct {
	mu       sync.RWMutex
	values   map[string]bool
	replacer *strings.Replacer
	longest  int
}

// add makes the values at the given paths of a configuration secret.
func (s *secrets) add(config any, paths [][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values == nil {
		s.values = map[string]bool{}
	}
	before := len(s.values)
	for _, path := range paths {
		collect(at(config, path), s.values)
	}
	if len(s.values) == before {
		return
	}
	// Longer ones first: a secret may be part of another.
	values := make([]string, 0, len(s.values))
	for v := range s.values {
		values = append(values, v)
	}
	slices.SortFunc(values, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	pairs := make([]string, 0, 2*len(values))
	for _, v := range values {
		pairs = append(pairs, v, masked)
	}
	s.longest = len(values[0])
	s.replacer = strings.NewReplacer(pairs...)
}

// collect adds the forms in which a secret may show up in text: as it is, as
// part of a JSON document, and each of its lines.
func collect(v any, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			collect(e, into)
		}
	case []any:
		for _, e := range v {
			collect(e, into)
		}
	case nil, bool:
	default:
		text := fmt.Sprint(v)
		forms := append(strings.Split(text, "\n"), text)
		if _, ok := v.(string); !ok {
			if encoded, err := json.Marshal(v); err == nil {
				forms = append(forms, string(encoded))
			}
		}
		for _, form := range forms {
			form = strings.TrimRight(form, "\r")
			for _, escaped := range escapes(form) {
				if len(escaped) >= shortestSecret {
					into[escaped] = true
				}
			}
		}
	}
}

// escapes returns a text as it is and as the encoders of various languages
// write it into JSON.
func escapes(text string) []string {
	forms := []string{text}
	for _, html := range []bool{true, false} {
		var b strings.Builder
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(html)
		if encoder.Encode(text) != nil {
			continue
		}
		quoted := strings.TrimSuffix(b.String(), "\n")
		inner := quoted[1 : len(quoted)-1]
		forms = append(forms, inner, ascii(inner))
	}
	return forms
}

// ascii writes everything else as \uXXXX.
func ascii(text string) string {
	var b strings.Builder
	for _, c := range text {
		if c < utf8.RuneSelf {
			b.WriteRune(c)
			continue
		}
		for _, unit := range utf16.Encode([]rune{c}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// mask hides every secret known so far.
func (s *secrets) mask(text string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.replacer == nil {
		return text
	}
	return s.replacer.Replace(text)
}

// reach is how many bytes of an unfinished text must be held back so that no
// secret that has begun in it is missed.
func (s *secrets) reach() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.longest
}

// value hides secrets in a whole JSON-like value.
func (s *secrets) value(v any) any {
	switch v := v.(type) {
	case string:
		return s.mask(v)
	case map[string]any:
		if v == nil {
			return v
		}
		c := make(map[string]any, len(v))
		for k, e := range v {
			c[k] = s.value(e)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = s.value(e)
		}
		return c
	default:
		return v
	}
}

func (s *secrets) maskEvent(e *Event) {
	e.Error = s.mask(e.Error)
	e.Text = s.mask(e.Text)
	if len(e.Output) > 0 {
		output := make([]string, len(e.Output))
		for i, line := range e.Output {
			output[i] = s.mask(line)
		}
		e.Output = output
	}
	if e.Plan != nil {
		plan := s.action(*e.Plan)
		e.Plan = &plan
	}
}

// action hides secrets in what a resource type said of an action.
func (s *secrets) action(a protocol.Action) protocol.Action {
	a.Description = s.mask(a.Description)
	a.Args = slices.Clone(a.Args)
	for i, arg := range a.Args {
		a.Args[i] = s.mask(arg)
	}
	return a
}

// hidden is the set of paths in a configuration that hold secrets.
type hidden [][]string

// covers tells whether the value at path is, or is part of, a secret.
func (h hidden) covers(path []string) bool {
	return slices.ContainsFunc(h, func(p []string) bool {
		return len(p) <= len(path) && slices.Equal(p, path[:len(p)])
	})
}

// blank returns a copy of a configuration with the secrets replaced.
func (h hidden) blank(v any, path ...string) any {
	if len(h) == 0 {
		return v
	}
	if h.covers(path) {
		return masked
	}
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for k, e := range v {
			c[k] = h.blank(e, append(slices.Clone(path), k)...)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = h.blank(e, append(slices.Clone(path), fmt.Sprint(i))...)
		}
		return c
	default:
		return v
	}
}

// at walks a path of keys and indexes into a JSON-like value.
func at(v any, path []string) any {
	for _, key := range path {
		switch container := v.(type) {
		case map[string]any:
			v = container[key]
		case []any:
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil || i < 0 || i >= len(container) {
				return nil
			}
			v = container[i]
		default:
			return nil
		}
	}
	return v
}
