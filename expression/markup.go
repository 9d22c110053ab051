package expression

import "strings"

// markup is text that is escaped already: what escape, tojson and safe give.
// It is text in all but three ways: escape leaves it, text that is added to it
// is escaped, and within the text of a list it is told from plain text. An
// operation that this package does not know of markup is refused.
type markup string

func escaped(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(text)
}

// textOf returns text, plain or markup.
func textOf(v any) (text string, ok bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case markup:
		return string(v), true
	}
	return "", false
}

// like gives text the kind that of has.
func like(of any, text string) any {
	if _, ok := of.(markup); ok {
		return markup(text)
	}
	return text
}

// unescaped refuses arguments for markup that Jinja2 would escape first.
func (s *state) unescaped(of any, arguments ...any) {
	if _, ok := of.(markup); !ok {
		return
	}
	for _, v := range arguments {
		if text, ok := v.(string); ok && escaped(text) != text {
			s.fail("%s is not known for escaped text; make it plain text first with ~ ''", shortRepr(text))
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
		return func(s *state, v any, a *args) any { return of(s, string(v.(markup)), a) }
	case "upper", "lower", "capitalize", "title", "strip", "lstrip", "rstrip", "ljust", "rjust", "zfill",
		"replace", "split", "rsplit", "splitlines", "partition", "rpartition":
		return func(s *state, v any, a *args) any {
			s.unescaped(v, a.positional...)
			for _, name := range a.order {
				s.unescaped(v, a.named[name])
			}
			return marked(of(s, string(v.(markup)), a))
		}
	}
	return func(s *state, _ any, a *args) any {
		s.fail("%s() is not known for escaped text; make it plain text first with ~ ''", a.name)
		return nil
	}
}

// marked makes the texts of a result escaped ones.
func marked(v any) any {
	switch v := v.(type) {
	case string:
		return markup(v)
	case []any:
		for i := range v {
			v[i] = marked(v[i])
		}
	case tuple:
		for i := range v {
			v[i] = marked(v[i])
		}
	}
	return v
}
