package python

import "fmt"

// Series is what Python goes through without its being a list: a range, the
// keys of a mapping, or what map and select make. As there, little can be done
// with one except going through it; what differs from a list is refused, with
// the advice to make one.
type Series struct {
	Kind SeriesKind
	What string // for messages
	List []any
	used bool // a generator can be gone through once
}

// SeriesKind is what can be done with a series.
type SeriesKind int

// The kinds of series.
const (
	Generator SeriesKind = iota // it can be gone through once
	view                        // the keys, values or items of a mapping: it has a length
	RangeKind                   // it also has elements by index
)

// Generated is what can be gone through once.
func Generated(what string, list []any) *Series {
	return &Series{Kind: Generator, What: "what " + what + " gives", List: list}
}

// take returns the elements. What a generator gave is gone then, and a second
// use would find nothing in Jinja2.
func (s *State) take(v *Series) []any {
	if v.Kind == Generator {
		if v.used {
			s.Refuse(v, "gone through twice")
		}
		v.used = true
	}
	s.Work(len(v.List))
	return v.List
}

// Refuse fails because something cannot be done with a series.
func (s *State) Refuse(v *Series, what string) {
	s.Fail("%s cannot be %s; make it a list with the filter list", v.What, what)
}

// seriesTruth is refused for a generator, which would always be true, whatever it gives.
func (s *State) seriesTruth(v *Series) bool {
	if v.Kind == Generator {
		s.Refuse(v, "true or false")
	}
	return len(v.List) > 0
}

// viewOf makes what a method of mappings gives.
func viewOf(what string, list []any) *Series {
	return &Series{Kind: view, What: fmt.Sprintf("what %s() gives", what), List: list}
}

// ItemList are the pairs of a mapping.
func ItemList(s *State, in any) []any {
	keys, values, ok := s.Pairs(Defined(in))
	if !ok {
		s.Fail("%s is not a mapping", Describe(in))
	}
	s.Memory(48 * len(keys))
	list := make([]any, len(keys))
	for i, key := range keys {
		list[i] = Tuple{key, values[i]}
	}
	return list
}
