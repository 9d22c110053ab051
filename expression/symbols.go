package expression

import (
	"maps"
)

// symbols are the names that a body uses. As in Jinja2, a name that a body sets
// is its own from the beginning: until then a body within it sees nothing, even
// if a variable has that name, unless the body itself has read it before.
type symbols struct {
	uses   map[string]use
	stores map[string]bool
	before *symbols // of a branch: what the body used before
}

// use is how a body first uses a name.
type use int

const (
	loaded use = iota
	stored
)

func newSymbols(stored ...string) symbols {
	y := symbols{map[string]use{}, map[string]bool{}, nil}
	for _, name := range stored {
		y.store(name)
	}
	return y
}

// branch begins a branch of an if. It holds what it adds only: copying all that
// was used before would take quadratic time for a text of many ifs.
func (y symbols) branch() symbols {
	return symbols{map[string]use{}, map[string]bool{}, &y}
}

func (y symbols) load(name string) {
	if !y.used(name) {
		y.uses[name] = loaded
	}
}

func (y symbols) store(name string) {
	if !y.used(name) {
		y.uses[name] = stored
	}
	y.stores[name] = true
}

func (y symbols) storeTarget(t target) {
	for _, name := range t.names() {
		if t.attribute == "" {
			y.store(name)
		}
	}
}

func (y symbols) used(name string) bool {
	for at := &y; at != nil; at = at.before {
		if _, ok := at.uses[name]; ok {
			return true
		}
	}
	return false
}

func (y symbols) stored(name string) bool {
	for at := &y; at != nil; at = at.before {
		if at.stores[name] {
			return true
		}
	}
	return false
}

// join adds the branches of an if: its first, the elifs together and the else.
// What not all of them set may be set outside.
func (y symbols) join(branches [3]symbols) {
	count := map[string]int{}
	for _, b := range branches {
		for name := range b.stores {
			if !y.stored(name) {
				count[name]++
			}
		}
	}
	for _, b := range branches {
		maps.Copy(y.uses, b.uses)
		maps.Copy(y.stores, b.stores)
	}
	for name, n := range count {
		if n < len(branches) {
			y.uses[name] = loaded
		}
	}
}
