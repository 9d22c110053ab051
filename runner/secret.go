package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/deployster-go/deployster/protocol"
)

const masked = "(secret)"

// shortestSecret is the length, in bytes, from which a secret is looked for in
// any text. Shorter ones would blank out half of what people read; those are
// hidden where they stand in the configuration, and where they are the whole of
// another value.
const shortestSecret = 4

// secrets are the values that configurations marked writeOnly, collected as
// they become known, and hidden in all text that leaves the runner.
type secrets struct {
	mu    sync.RWMutex
	known words
	short map[string]bool // those too short to be looked for
}

// add makes the values at the given paths of a configuration secret.
func (s *secrets) add(config any, paths [][]string) {
	if len(paths) == 0 {
		return
	}
	found := map[string]bool{}
	for _, path := range paths {
		collect(at(config, path), found)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for word := range found {
		if len(word) < shortestSecret {
			if s.short == nil {
				s.short = map[string]bool{}
			}
			s.short[word] = true
			continue
		}
		s.known.add(word)
	}
}

// collect adds the forms in which a secret may show up in text: as it is, as
// JSON has it where it is no text, and each of its lines. How JSON spells a text
// is left to the masking.
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
		forms := []string{text}
		if _, ok := v.(string); !ok {
			if encoded, err := json.Marshal(v); err == nil {
				forms = append(forms, string(encoded))
			}
		}
		for _, line := range strings.Split(text, "\n") {
			if len(line) >= shortestSecret { // else it is no secret by itself
				forms = append(forms, line)
			}
		}
		for _, form := range forms {
			if form = strings.TrimRight(form, "\r"); form != "" {
				into[form] = true
			}
		}
	}
}

// mask hides every secret known so far.
func (s *secrets) mask(text string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known.replace(text, masked)
}

// held is how many bytes of an unfinished text must be held back so that no
// secret that has begun in it is missed.
func (s *secrets) held() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known.reach * longestEncoding
}

// covers returns the parts of a text that secrets cover, and the text with its
// escapes resolved.
func (s *secrets) covers(text []byte) ([]span, reading) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known.covers(text)
}

// whole hides a secret that is all of a text, however short it is, and those
// within it.
func (s *secrets) whole(text string) string {
	s.mu.RLock()
	short := s.short[text] || len(s.short) > 0 && s.short[string(reading{text: []byte(text)}.unescaped().text)]
	s.mu.RUnlock()
	if short {
		return masked
	}
	return s.mask(text)
}

// value hides secrets in a whole JSON-like value. Nothing is left of a number
// that holds one.
func (s *secrets) value(v any) any {
	switch v := v.(type) {
	case nil, bool:
		return v
	case string:
		return s.whole(v)
	case map[string]any:
		if v == nil {
			return v
		}
		c := make(map[string]any, len(v))
		for _, k := range sortedKeys(v) {
			c[s.mask(k)] = s.value(v[k])
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = s.value(e)
		}
		return c
	default:
		text, err := json.Marshal(v)
		if err != nil || s.whole(string(text)) != string(text) {
			return masked
		}
		return v
	}
}

// texts hides secrets in each of several texts.
func (s *secrets) texts(list []string) []string {
	if list == nil {
		return nil
	}
	c := make([]string, len(list))
	for i, text := range list {
		c[i] = s.mask(text)
	}
	return c
}

func (s *secrets) maskEvent(e *Event) {
	e.Error = s.mask(e.Error)
	e.Text = s.mask(e.Text)
	e.Output, e.Actions = s.texts(e.Output), s.texts(e.Actions)
	if e.Plan != nil {
		plan := s.action(*e.Plan)
		e.Plan = &plan
	}
}

// action hides secrets in what a resource type said of an action.
func (s *secrets) action(a protocol.Action) protocol.Action {
	a.Name, a.Description = s.mask(a.Name), s.mask(a.Description)
	a.Image, a.Entrypoint = s.mask(a.Image), s.mask(a.Entrypoint)
	a.Args = slices.Clone(a.Args)
	for i, arg := range a.Args {
		a.Args[i] = s.whole(arg)
	}
	return a
}

// unsecret makes the error of an answer show the answer without secrets. The
// excerpt in the error was cut before anything could be masked, so the masked
// answer is decoded again for its error.
func (s *secrets) unsecret(err error, answer []byte, decode func([]byte) error) error {
	var bad *protocol.AnswerError
	masked := s.mask(string(answer))
	if masked == string(answer) || !errors.As(err, &bad) {
		return err
	}
	if err := decode([]byte(masked)); err != nil {
		return err
	}
	return &protocol.AnswerError{Message: bad.Message, Path: bad.Path}
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
