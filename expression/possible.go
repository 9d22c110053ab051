package expression

import (
	"path"
	"slices"
	"strings"
)

// possible are the files that a template may include by a name that is known only when
// it is evaluated: some files, all in some directories, or any at all.
type possible struct {
	files       []string
	directories []string // each ends in a slash
	anywhere    bool
}

func (p *possible) add(q possible) {
	p.files = append(p.files, q.files...)
	p.directories = append(p.directories, q.directories...)
	p.anywhere = p.anywhere || q.anywhere
}

// has reports whether a name is one of them.
func (p possible) has(name string) bool {
	clean := path.Clean(name)
	return slices.ContainsFunc(p.files, func(file string) bool { return path.Clean(file) == clean }) ||
		slices.ContainsFunc(p.directories, func(directory string) bool {
			return clean == path.Clean(directory) || isBelow(clean, directory)
		})
}

// possibleNames finds what the value of an expression may name, as far as its form tells.
func possibleNames(x expr) (p possible) {
	switch x := x.(type) {
	case *constant:
		if name, ok := x.value.(string); ok {
			return possible{files: []string{name}}
		}
	case *sequence:
		for _, item := range x.items {
			p.add(possibleNames(item))
		}
		return p
	case *conditional:
		p = possibleNames(x.then)
		if x.otherwise != nil {
			p.add(possibleNames(x.otherwise))
		}
		return p
	case *operation:
		start, whole := beginning(x)
		if whole {
			return possible{files: []string{start}}
		}
		if directory := start[:strings.LastIndexByte(start, '/')+1]; directory != "" && !climbs(x, new(bool)) {
			return possible{directories: []string{directory}}
		}
	}
	return possible{anywhere: true}
}

// beginning is the text with which a text begins that is joined of several, as far as it
// is known; whole is all of it.
func beginning(x expr) (text string, whole bool) {
	switch x := x.(type) {
	case *constant:
		text, whole = x.value.(string)
	case *operation:
		if x.op != "~" && x.op != "+" || x.left == nil {
			return "", false
		}
		if text, whole = beginning(x.left); whole {
			var more string
			more, whole = beginning(x.right)
			text += more
		}
	}
	return text, whole
}

// climbs reports whether a text that is joined of several has ".." behind its beginning, and
// so leads out of the directory that this names. behind is whether what comes is behind it.
func climbs(x expr, behind *bool) bool {
	switch x := x.(type) {
	case *constant:
		text, isText := x.value.(string)
		return *behind && isText && strings.Contains(text, "..")
	case *operation:
		if (x.op == "~" || x.op == "+") && x.left != nil {
			return climbs(x.left, behind) || climbs(x.right, behind)
		}
	}
	*behind = true
	return false
}
