package expression

import "fmt"

// series is what Python goes through without its being a list: a range, the
// keys of a mapping, or what map and select make. As there, little can be done
// with one besides going through it; what differs from a list is refused, with
// the advice to make one.
type series struct {
	kind seriesKind
	what string // for messages
	list []any
	used bool // a generator can be gone through once
}

type seriesKind int

const (
	generator seriesKind = iota
	view                 // the keys, values or items of a mapping: it has a length
	rangeKind            // it also has elements by index
)

func generated(what string, list []any) *series {
	return &series{kind: generator, what: "what " + what + " gives", list: list}
}

// take returns the elements. What a generator gave is gone then, and a second
// use would find nothing in Jinja2.
func (s *state) take(v *series) []any {
	if v.kind == generator {
		if v.used {
			s.refuse(v, "gone through twice")
		}
		v.used = true
	}
	s.work(len(v.list))
	return v.list
}

// refuse fails because something can not be done with a series.
func (s *state) refuse(v *series, what string) {
	s.fail("%s can not be %s; make it a list with the filter list", v.what, what)
}

// seriesTruth is refused for a generator, which would always be true, whatever it gives.
func (s *state) seriesTruth(v *series) bool {
	if v.kind == generator {
		s.refuse(v, "true or false")
	}
	return len(v.list) > 0
}

// viewOf makes what a method of mappings gives.
func viewOf(what string, list []any) *series {
	return &series{kind: view, what: fmt.Sprintf("what %s() gives", what), list: list}
}
