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
}

// use is how a body first uses a name.
type use int

const (
	loaded use = iota
	stored
)

func newSymbols(stored ...string) symbols {
	y := symbols{map[string]use{}, map[string]bool{}}
	for _, name := range stored {
		y.store(name)
	}
	return y
}

func (y symbols) load(name string) {
	if _, ok := y.uses[name]; !ok {
		y.uses[name] = loaded
	}
}

func (y symbols) store(name string) {
	if _, ok := y.uses[name]; !ok {
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

func (y symbols) copy() symbols { return symbols{maps.Clone(y.uses), maps.Clone(y.stores)} }

// join adds the branches of an if: its first, the elifs together and the else.
// What not all of them set may be set outside.
func (y symbols) join(branches [3]symbols) {
	count := map[string]int{}
	for _, b := range branches {
		for name := range b.stores {
			if !y.stores[name] {
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
