package reconcile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Refusals are what is left out: the log refuses for good what is to be recorded
// of it. Whatever is wrong with it, the others go on.
type Refusals struct {
	what string                  // people call them
	head func(name string) int64 // the newest event
	all  map[string]refusal
}

type refusal struct {
	head  int64 // when it was refused
	cause error
}

// Add leaves something out until something new of it is in the log. What people
// are to be told is not "" only once, also when what is new does not help.
func (r *Refusals) Add(name string, cause error) (notice string) {
	if _, known := r.all[name]; !known {
		notice = fmt.Sprintf("%s %s is left out until something new of it is in the log: %v", r.what, name, cause)
	}
	r.all[name] = refusal{r.head(name), cause}
	return notice
}

// Clear forgets that something was left out.
func (r *Refusals) Clear(name string) { delete(r.all, name) }

// Out reports whether something is left out.
func (r *Refusals) Out(name string) bool {
	refused, ok := r.all[name]
	return ok && r.head(name) == refused.head
}

// Err tells what is left out, and why.
func (r *Refusals) Err() error {
	var all []error
	for _, name := range slices.Sorted(maps.Keys(r.all)) {
		if r.Out(name) {
			all = append(all, fmt.Errorf("%s %s was left out: %w", r.what, name, r.all[name].cause))
		}
	}
	return errors.Join(all...)
}
