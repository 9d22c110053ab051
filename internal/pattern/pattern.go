// Package pattern has regular expressions compiled when they are first needed.
//
// Packages have patterns of which a command needs few, or none, and compiling one can take
// a millisecond: a bounded repetition is as long as what it repeats is, as often as it may.
// Compiled while packages are initialized, every start of the program would pay for all of
// them, also in a container.
package pattern

import (
	"regexp"
	"sync"
)

// Lazy returns what compiles a pattern when it is first called, and panics then if the
// pattern is wrong.
func Lazy(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
