package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// fields reads the members of one object of an answer. The first problem is
// kept (in the outermost object) and everything after it is harmless, so that
// decoding reads as a description of the document.
type fields struct {
	object map[string]any
	data   []byte // the whole answer, for excerpts
	path   string
	root   *fields // nil in the outermost object
	err    error   // of the outermost object: the first problem
}

func (f *fields) top() *fields {
	if f.root != nil {
		return f.root
	}
	return f
}

func (f *fields) fail(key, message string) {
	top := f.top()
	if top.err != nil {
		return
	}
	e := &AnswerError{Message: message, Path: join(f.path, key)}
	offending := f.data
	if value, ok := f.object[key]; ok {
		if text, err := json.Marshal(value); err == nil {
			offending = text
		}
	}
	e.Excerpt = excerpt(bytes.TrimSpace(offending))
	top.err = e
}

// failBare is fail with an error that shows nothing of the answer.
func (f *fields) failBare(e *AnswerError) {
	if top := f.top(); top.err == nil {
		top.err = e
	}
}

// failOnce fails unless the key is there: then it had the wrong kind, which
// has been said already.
func (f *fields) failOnce(key, message string) {
	if _, there := f.object[key]; !there {
		f.fail(key, message)
	}
}

func (f *fields) only(known ...string) {
	for _, key := range slices.Sorted(maps.Keys(f.object)) {
		if slices.Contains(known, key) {
			continue
		}
		hint := "known here are " + strings.Join(known, ", ")
		for _, k := range known {
			if plain(k) == plain(key) {
				hint = fmt.Sprintf("did you mean %q?", k)
			}
		}
		f.fail(key, "unknown key; "+hint)
	}
}

// plain is what remains of a key when spelling habits are ignored.
func plain(key string) string {
	return strings.TrimSuffix(strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(key)), "s")
}

func (f *fields) forbid(keys ...string) {
	for _, key := range keys {
		if _, there := f.object[key]; there {
			f.fail(key, fmt.Sprintf("must not be there when status is %v", f.object["status"]))
		}
	}
}

func (f *fields) child(key string) (*fields, bool) {
	value, there := f.object[key]
	if !there {
		return nil, false
	}
	object, ok := value.(map[string]any)
	if !ok {
		f.fail(key, fmt.Sprintf("must be an object, not %s", kindOf(value)))
		return nil, false
	}
	return &fields{object: object, data: f.data, path: join(f.path, key), root: f.top()}, true
}

func (f *fields) text(key string) (string, bool) {
	value, there := f.object[key]
	if !there {
		return "", false
	}
	s, ok := value.(string)
	if !ok {
		f.fail(key, fmt.Sprintf("must be a string, not %s", kindOf(value)))
	}
	return s, ok
}

func (f *fields) boolean(key string, otherwise bool) bool {
	value, there := f.object[key]
	if !there {
		return otherwise
	}
	b, ok := value.(bool)
	if !ok {
		f.fail(key, fmt.Sprintf("must be true or false, not %s", kindOf(value)))
	}
	return b
}

func (f *fields) invocation() Invocation {
	var out Invocation
	out.Image = f.nonEmpty("image")
	out.Entrypoint = f.nonEmpty("entrypoint")
	value, there := f.object["args"]
	if !there {
		return out
	}
	list, ok := value.([]any)
	if !ok {
		f.fail("args", fmt.Sprintf("must be a list of strings, not %s", kindOf(value)))
	}
	for i, item := range list {
		s, ok := item.(string)
		if !ok {
			f.fail(fmt.Sprintf("args[%d]", i), fmt.Sprintf("must be a string, not %s", kindOf(item)))
		}
		if strings.ContainsRune(s, 0) {
			f.fail(fmt.Sprintf("args[%d]", i), "must not contain a NUL character")
		}
		out.Args = append(out.Args, s)
	}
	return out
}

func (f *fields) nonEmpty(key string) string {
	s, ok := f.text(key)
	if ok && (s == "" || strings.ContainsRune(s, 0)) {
		f.fail(key, "must not be empty or contain a NUL character; leave it out for the image's own")
	}
	return s
}

func (f *fields) needInvocation(i Invocation) {
	if i.Image == "" && i.Entrypoint == "" && len(i.Args) == 0 {
		top := f.top()
		if top.err == nil {
			top.err = &AnswerError{
				Message: "must have at least one of image, entrypoint and args: without them it would be the init action again",
				Path:    f.path, Excerpt: excerpt(bytes.TrimSpace(f.data)),
			}
		}
	}
}

// kindOf names what a decoded value of JSON is. It stands here, though other packages
// have one too: types are built with this package alone.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	default:
		return "a number"
	}
}
