package python

import (
	"strings"
)

// Markup is text that is escaped already: what escape, tojson and safe give.
// It is text in all but three ways: escape leaves it, text that is added to it
// is escaped, and within the text of a list it is distinguished from plain text. An
// operation that this package does not know of markup is refused.
type Markup string

// Escaped escapes what matters in HTML.
func Escaped(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(text)
}

// TextOf returns text, plain or markup.
func TextOf(v any) (text string, ok bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case Markup:
		return string(v), true
	}
	return "", false
}

// Like gives text the kind that of has.
func Like(of any, text string) any {
	if _, ok := of.(Markup); ok {
		return Markup(text)
	}
	return text
}

// Unescaped refuses arguments for markup that Jinja2 would escape first.
func (s *State) Unescaped(of any, arguments ...any) {
	if _, ok := of.(Markup); !ok {
		return
	}
	for _, v := range arguments {
		if text, ok := v.(string); ok && Escaped(text) != text {
			s.Fail("%s is not known for escaped text; make it plain text first with ~ ''", ShortRepr(text))
		}
	}
}

// marked is a method of escaped text, if it is one of text.
func (m methods) marked(name string) method {
	of, ok := m.text[name]
	if !ok {
		return nil
	}
	switch name {
	case "startswith", "endswith", "find", "rfind", "index", "rindex", "count", "casefold",
		"isdigit", "isalpha", "isalnum", "isspace", "islower", "isupper":
		return func(s *State, v any, a *Args) any { return of(s, string(v.(Markup)), a) }
	case "upper", "lower", "capitalize", "title", "strip", "lstrip", "rstrip", "ljust", "rjust", "zfill",
		"replace", "split", "rsplit", "splitlines", "partition", "rpartition":
		return func(s *State, v any, a *Args) any {
			s.Unescaped(v, a.Positional...)
			for _, name := range a.Order {
				s.Unescaped(v, a.Named[name])
			}
			return marked(of(s, string(v.(Markup)), a))
		}
	}
	return func(s *State, _ any, a *Args) any {
		s.Fail("%s() is not known for escaped text; make it plain text first with ~ ''", a.Name)
		return nil
	}
}

// marked makes the texts of a result escaped ones.
func marked(v any) any {
	switch v := v.(type) {
	case string:
		return Markup(v)
	case []any:
		for i := range v {
			v[i] = marked(v[i])
		}
	case Tuple:
		for i := range v {
			v[i] = marked(v[i])
		}
	}
	return v
}
