// Package value finds one value in a YAML or JSON file that people keep, and replaces its
// bytes and no others: comments, order, quotes and spaces stay as they are.
//
// A path leads there: keys divided by dots, [0] for an element of a list, [name=shop] or
// [name=shop,kind=web] for the element that has such members, ["a.b"] for a key with a dot. At its
// beginning [1] or [kind=Deployment,metadata.name=web] selects a document of the file. What is written is read again,
// and refused unless nothing but the value has changed.
package value

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Path leads to a value.
type Path struct {
	text  string
	steps []step
}

// step is one part of a path: a key, an index, or the members that an element has.
type step struct {
	key     string
	index   int // of an element, -1 for a key or members
	members []match
	display string
}

// match is a member of an element: metadata.name=web.
type match struct{ member, equals string }

// selects reports whether the step chooses among elements or documents.
func (s step) selects() bool { return s.index >= 0 || len(s.members) > 0 }

// String is the path as it was written.
func (p Path) String() string { return p.text }

const maxSteps = 50

// Parse reads a path.
func Parse(text string) (Path, error) {
	p := Path{text: text}
	rest := text
	for rest != "" {
		s, next, err := first(rest)
		if err != nil {
			return Path{}, err
		}
		s.display = text[:len(text)-len(next)]
		p.steps = append(p.steps, s)
		rest = strings.TrimPrefix(next, ".")
		if next == "." || len(next) > 0 && next[0] != '.' && next[0] != '[' {
			return Path{}, errors.New("its parts are divided by dots, as in image.tag")
		}
	}
	switch {
	case len(p.steps) == 0:
		return Path{}, errors.New("it is empty; it leads to a value, as image.tag does")
	case len(p.steps) > maxSteps:
		return Path{}, fmt.Errorf("it has %d parts; at most %d are possible", len(p.steps), maxSteps)
	}
	return p, nil
}

// first is the first step of a path, and what comes after it.
func first(text string) (s step, rest string, err error) {
	if text[0] != '[' {
		end := strings.IndexAny(text, ".[")
		if end < 0 {
			end = len(text)
		}
		if end == 0 || strings.ContainsAny(text[:end], `]"`) {
			return s, "", errors.New(`a key is missing, or has one of ]", which is written as ["a.b"]`)
		}
		return step{key: text[:end], index: -1}, text[end:], nil
	}
	inner := text[1:]
	if strings.HasPrefix(inner, `"`) {
		key, after, ok := quoted(inner)
		if !ok || !strings.HasPrefix(after, "]") {
			return s, "", errors.New(`a key in brackets is written as ["a.b"]`)
		}
		return step{key: key, index: -1}, after[1:], nil
	}
	if strings.Contains(strings.SplitN(inner, "]", 2)[0], "=") {
		return members(inner)
	}
	number, after, ok := strings.Cut(inner, "]")
	index, err := strconv.Atoi(number)
	if !ok || err != nil || index < 0 {
		return s, "", errors.New("in brackets is the number of an element from 0, a member as name=shop, or a key in quotes")
	}
	return step{index: index}, after, nil
}

// members reads name=shop,kind=web] as the step that it is, and returns what comes after it.
func members(text string) (s step, rest string, err error) {
	wrong := errors.New(`an element is named as [name=shop], [name=shop,kind=web] or [name="a]b"]`)
	s.index = -1
	for {
		member, after, _ := strings.Cut(text, "=")
		if member == "" || strings.ContainsAny(member, "],") {
			return step{}, "", wrong
		}
		var equals string
		var ok bool
		if strings.HasPrefix(after, `"`) {
			equals, rest, ok = quoted(after)
		} else {
			end := nextMember(after)
			equals, rest, ok = after[:max(end, 0)], after[max(end, 0):], end > 0
		}
		if !ok || rest == "" {
			return step{}, "", wrong
		}
		if slices.ContainsFunc(s.members, func(m match) bool { return m.member == member }) {
			return step{}, "", fmt.Errorf("in brackets is the member %s twice: an element has each member once", member)
		}
		s.members = append(s.members, match{member, equals})
		if rest[0] == ']' {
			return s, rest[1:], nil
		}
		if rest[0] != ',' {
			return step{}, "", wrong
		}
		text = rest[1:]
	}
}

// nextMember returns where a value without quotes ends: at ], or at a comma with MEMBER= behind it.
func nextMember(text string) int {
	end := strings.IndexByte(text, ']')
	for i := range max(end, 0) {
		if text[i] != ',' {
			continue
		}
		if member, _, found := strings.Cut(text[i+1:end], "="); found && member != "" && !strings.Contains(member, ",") {
			return i
		}
	}
	return end
}

// quoted takes a text in double quotes off the front.
func quoted(text string) (value, rest string, ok bool) {
	prefix, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", "", false
	}
	value, err = strconv.Unquote(prefix)
	return value, text[len(prefix):], err == nil
}
