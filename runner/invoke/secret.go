package invoke

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/schema"
)

// Masked stands in the place of a secret.
const Masked = "(secret)"

// shortestSecret is the length, in bytes, from which a secret is looked for in
// any text. Shorter ones would blank out half of what people read; those are
// hidden where they stand in the configuration, and where they are the whole of
// another value.
const shortestSecret = 4

// Secrets are the values that configurations marked writeOnly, collected as
// they become known, and hidden in all text that leaves a run. It is safe for
// concurrent use.
type Secrets struct {
	mu    sync.RWMutex
	known words
	short map[string]bool // those too short to be looked for
}

// Add makes the values at the given paths of a configuration secret.
func (s *Secrets) Add(config any, paths [][]string) {
	if len(paths) == 0 {
		return
	}
	found := map[string]bool{}
	for _, path := range paths {
		collect(schema.Within(config, path), found)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for word := range found {
		s.add(word)
		for _, form := range asShown(word) {
			if (len(form) < shortestSecret) == (len(word) < shortestSecret) { // else it is as good as nothing of it
				s.add(form)
			}
		}
	}
}

// add adds one form of a secret; s.mu is held.
func (s *Secrets) add(word string) {
	switch {
	case len(word) >= shortestSecret:
		s.known.add(word)
	case word != "":
		if s.short == nil {
			s.short = map[string]bool{}
		}
		s.short[word] = true
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
	case nil, bool, protocol.Unknown:
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

// Mask hides every secret known so far.
func (s *Secrets) Mask(text string) string { return s.Replace(text, Masked) }

// Replace puts a text in the place of every secret known so far.
func (s *Secrets) Replace(text, by string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known.replace(text, by)
}

// none reports whether no secret is known so far.
func (s *Secrets) none() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.known.parts) == 0 && len(s.short) == 0
}

// anyShort reports whether there is a secret that is not looked for in any text.
func (s *Secrets) anyShort() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.short) > 0
}

// longest is how many bytes a secret may have where encoders wrote it.
func (s *Secrets) longest() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known.reach * longestEncoding
}

// covers is words.covers for the secrets known so far.
func (s *Secrets) covers(text []byte, most, inside int) (covers []span, cut int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known.covers(text, most, inside)
}

// Whole hides a secret that is all of a text, however short it is, and those
// within it.
func (s *Secrets) Whole(text string) string {
	if s.isShort(text) {
		return Masked
	}
	return s.Mask(text)
}

// isShort reports whether all that is seen of a text is a secret that is too short to be
// looked for.
func (s *Secrets) isShort(text string) (is bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.short) > 0 {
		all := readings{ended: true, each: func(r reading) { is = is || s.short[string(r.text)] }}
		all.of([]byte(text))
	}
	return is
}

// MaskValue hides secrets in a whole JSON-like value. Nothing is left of a number
// that holds one.
func (s *Secrets) MaskValue(v any) any {
	switch v := v.(type) {
	case nil, bool:
		return v
	case string:
		return s.Whole(v)
	case map[string]any:
		if v == nil {
			return v
		}
		c := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			c[s.Mask(k)] = s.MaskValue(v[k])
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = s.MaskValue(e)
		}
		return c
	default:
		text, err := json.Marshal(v)
		if err != nil || s.Whole(string(text)) != string(text) {
			return Masked
		}
		return v
	}
}

// MaskAll hides secrets in each of several texts.
func (s *Secrets) MaskAll(list []string) []string {
	if list == nil {
		return nil
	}
	c := make([]string, len(list))
	for i, text := range list {
		c[i] = s.Mask(text)
	}
	return c
}

// MaskAction hides secrets in what a resource type says about an action.
func (s *Secrets) MaskAction(a protocol.Action) protocol.Action {
	a.Name, a.Description = s.Mask(a.Name), s.Mask(a.Description)
	a.Image, a.Entrypoint = s.Mask(a.Image), s.Mask(a.Entrypoint)
	a.Args = slices.Clone(a.Args)
	for i, arg := range a.Args {
		a.Args[i] = s.Whole(arg)
	}
	return a
}

// MaskAnswerError makes the error of an answer show the answer without secrets. The
// excerpt in the error was cut before anything could be masked, so the masked
// answer is decoded again for its error.
func (s *Secrets) MaskAnswerError(err error, answer []byte, decode func([]byte) error) error {
	var bad *protocol.AnswerError
	text := s.Mask(string(answer))
	if text == string(answer) || !errors.As(err, &bad) {
		return err
	}
	if err := decode([]byte(text)); err != nil {
		return err
	}
	return &protocol.AnswerError{Message: bad.Message, Path: bad.Path}
}
