// Package address reads and writes the names of resources. One that is declared with for_each has
// instances, which have its name with a key in brackets: pages[about]. What is in a module has the
// name of the module before its own: web[a].page.
package address

import (
	"slices"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/internal/pattern"
)

// KeyRule says what a key is.
const KeyRule = "a key has at most 100 letters, digits and _ . : @ + -, and begins with a letter, a digit or _"

const (
	name   = `[a-zA-Z][a-zA-Z0-9_-]*`
	key    = `[a-zA-Z0-9_][a-zA-Z0-9_.:@+-]*`
	maxKey = 100 // a bound in the pattern would make it as many times as long
)

var (
	// validKey is what may stand in the brackets of the name of an instance: the name is also that
	// of a directory, and part of what the log is asked for.
	validKey = pattern.Lazy(`^` + key + `$`)
	valid    = pattern.Lazy(`^` + name + `(\[` + key + `\])?(\.` + name + `(\[` + key + `\])?)*$`)
	written  = pattern.Lazy(`^(` + name + `)\[(.*)\]$`)
	segment  = pattern.Lazy(`^` + name + `(\[[^\]]*\])?`)
	keys     = pattern.Lazy(`\[[^\]]*\]`)
)

// Valid reports whether a text is the address of a resource, an instance or a module.
func Valid(text string) bool {
	tooLong := func(key string) bool { return len(key) > len("[]")+maxKey }
	return valid().MatchString(text) && !slices.ContainsFunc(keys().FindAllString(text, -1), tooLong)
}

// ValidKey reports whether a text can be the key of an instance.
func ValidKey(text string) bool { return len(text) <= maxKey && validKey().MatchString(text) }

// Key is the key of an instance that is made from a member of a list.
func Key(value any) (string, bool) {
	switch value := value.(type) {
	case string:
		return value, true
	case int64:
		return strconv.FormatInt(value, 10), true
	}
	return "", false
}

// Instance is the name of the instance that has a key.
func Instance(of, key string) string { return of + "[" + key + "]" }

// Written splits what somebody has written, such as pages[about] or pages[{{ each.key }}], into the
// name that is declared and what stands in the brackets, where there are some.
func Written(text string) (of, key string, one bool) {
	if parts := written().FindStringSubmatch(text); parts != nil {
		return parts[1], parts[2], true
	}
	return text, "", false
}

// Split splits the address of an instance into the one under which it is declared and its key. That
// of anything else is declared as it is.
func Split(address string) (of, key string, one bool) {
	if i := strings.LastIndexByte(address, '['); i >= 0 && strings.HasSuffix(address, "]") {
		return address[:i], address[i+1 : len(address)-1], true
	}
	return address, "", false
}

// Declared is the address under which something is declared, whatever instance it is.
func Declared(address string) string {
	of, _, _ := Split(address)
	return of
}

// WithoutKeys is an address without the keys of instances, also of modules.
func WithoutKeys(address string) string { return keys().ReplaceAllString(address, "") }

// First splits an address after its first name, with the key of that.
func First(address string) (first, rest string) {
	first = segment().FindString(address)
	return first, address[len(first):]
}
