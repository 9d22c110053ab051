package schema

import "strings"

// PathOf writes where a part of a value is that has a name, as people do: ports[0].host.
func PathOf(name string, path []string) string {
	var b strings.Builder
	b.WriteString(name)
	for _, key := range path {
		if isIndex(key) {
			b.WriteString("[" + key + "]")
		} else {
			b.WriteString("." + key)
		}
	}
	return b.String()
}
