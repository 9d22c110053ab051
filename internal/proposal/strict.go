package proposal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// deepest is how many objects and lists a body may have within each other.
const deepest = 200

// Unmarshal decodes a body. It refuses what readers of JSON take for different things, and what would be
// left out or replaced without a word: a member that is there twice, that has no place or whose name is in
// another case, half of a surrogate pair, bytes that are no UTF-8. The error names the member.
func Unmarshal(body []byte, into any) error {
	if !utf8.Valid(body) {
		return errors.New("the body is no UTF-8")
	}
	s := strict{body: body, decoder: json.NewDecoder(bytes.NewReader(body))}
	s.decoder.UseNumber()
	if err := s.value("", reflect.TypeOf(into), deepest); err != nil {
		return plain(err)
	}
	if _, err := s.decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind it")
	}
	return plain(json.Unmarshal(body, into))
}

// strict is the search for what no body may have.
type strict struct {
	body    []byte
	decoder *json.Decoder
}

// value reads a value of a type, nil if that may be any.
func (s *strict) value(path string, t reflect.Type, room int) error {
	for t != nil && t.Kind() == reflect.Pointer && !decodes(t) {
		t = t.Elem()
	}
	if t != nil && (decodes(t) || decodes(reflect.PointerTo(t)) || t.Kind() == reflect.Interface) {
		t = nil
	}
	token, text, err := s.token()
	switch {
	case err != nil:
		return err
	case token == json.Delim('{') || token == json.Delim('['):
		if room == 0 {
			return fmt.Errorf("%s: it is nested more than %d deep", member(path), deepest)
		}
	default:
		return checkUnicode(path, token, text)
	}
	if token == json.Delim('{') {
		return s.object(path, t, room-1)
	}
	var of reflect.Type
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		of = t.Elem()
	}
	for i := 0; s.decoder.More(); i++ {
		if err := s.value(path+"["+strconv.Itoa(i)+"]", of, room-1); err != nil {
			return err
		}
	}
	_, _, err = s.token()
	return err
}

// object reads the members of an object, and its end.
func (s *strict) object(path string, t reflect.Type, room int) error {
	var fields map[string]reflect.Type
	var of reflect.Type // of all members
	if t != nil && t.Kind() == reflect.Struct {
		fields = members(t)
	} else if t != nil && t.Kind() == reflect.Map {
		of = t.Elem()
	}
	seen := map[string]bool{}
	for s.decoder.More() {
		token, text, err := s.token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		at := strings.TrimPrefix(path+"."+name, ".")
		if err := checkUnicode(at, token, text); err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("%s is there twice: leave one out", member(at))
		}
		seen[name] = true
		if fields != nil {
			var known bool
			if of, known = fields[name]; !known {
				return unknown(at, name, fields)
			}
		}
		if err := s.value(at, of, room); err != nil {
			return err
		}
	}
	_, _, err := s.token()
	return err
}

// token reads the next token, and how it is written.
func (s *strict) token() (token json.Token, text []byte, err error) {
	before := s.decoder.InputOffset()
	token, err = s.decoder.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return token, s.body[before:s.decoder.InputOffset()], err
}

// checkUnicode refuses a text in which a surrogate is alone: readers replace it, so that different texts become one.
func checkUnicode(path string, token json.Token, text []byte) error {
	if _, is := token.(string); !is {
		return nil
	}
	for at := bytes.IndexByte(text, '\\'); at >= 0 && at+1 < len(text); {
		next := at + 2
		if unit, ok := codeUnit(text[at:]); ok {
			next = at + 6
			if utf16.IsSurrogate(unit) {
				second, _ := codeUnit(text[next:])
				if utf16.DecodeRune(unit, second) == utf8.RuneError {
					return fmt.Errorf("%s has half of a surrogate pair, %s: write the character as it is", member(path), text[at:next])
				}
				next += 6
			}
		}
		if at = bytes.IndexByte(text[next:], '\\'); at >= 0 {
			at += next
		}
	}
	return nil
}

// codeUnit reads the \uXXXX that a text begins with.
func codeUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(unit), err == nil
}

// decodes reports whether a type decodes itself.
func decodes(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[json.Unmarshaler]()) || t.Implements(reflect.TypeFor[interface{ UnmarshalText([]byte) error }]())
}

// members are those that a struct has as JSON.
func members(t reflect.Type) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || f.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		all[name] = f.Type
	}
	return all
}

// unknown is why a member has no place.
func unknown(path, name string, fields map[string]reflect.Type) error {
	for other := range fields {
		if strings.EqualFold(other, name) {
			return fmt.Errorf("unknown field: %s is written %q", member(path), other)
		}
	}
	return fmt.Errorf("unknown field: %s", member(path))
}

// member names a member in an error.
func member(path string) string {
	if path == "" {
		return "the body"
	}
	if len(path) > longest {
		path = strings.ToValidUTF8(path[:longest], "") + "…"
	}
	return fmt.Sprintf("the member %q", path)
}

// plain is why JSON could not be decoded, without types of Go.
func plain(err error) error {
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch):
		value := strings.NewReplacer("string", "a string", "number ", "the number ", "number", "a number", "object", "an object", "array", "a list", "bool", "a truth value").Replace(mismatch.Value)
		return fmt.Errorf("%s must be %s, and not %s", member(mismatch.Field), kind(mismatch.Type), value)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the body is no whole JSON: it ends too early")
	}
	return err
}

// kind is what JSON calls the values of a type.
func kind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	default:
		return "another value"
	}
}
