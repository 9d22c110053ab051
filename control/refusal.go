package control

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// refusals are what is left out: the log refuses for good what is to be recorded
// of it. Whatever is wrong with it, the others go on.
type refusals struct {
	what string                  // people call them
	head func(name string) int64 // the newest event
	all  map[string]refusal
}

type refusal struct {
	head  int64 // when it was refused
	cause error
}

// add leaves something out until something new of it is in the log. What people
// are to be told is not "" only once, also when what is new does not help.
func (r *refusals) add(name string, cause error) (notice string) {
	if _, known := r.all[name]; !known {
		notice = fmt.Sprintf("%s %s is left out until something new of it is in the log: %v", r.what, name, cause)
	}
	r.all[name] = refusal{r.head(name), cause}
	return notice
}

// out tells whether something is left out.
func (r *refusals) out(name string) bool {
	refused, ok := r.all[name]
	return ok && r.head(name) == refused.head
}

// err tells what is left out, and why.
func (r *refusals) err() error {
	var all []error
	for _, name := range slices.Sorted(maps.Keys(r.all)) {
		if r.out(name) {
			all = append(all, fmt.Errorf("%s %s was left out: %w", r.what, name, r.all[name].cause))
		}
	}
	return errors.Join(all...)
}
