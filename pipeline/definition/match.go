package definition

import (
	"strings"

	"github.com/deployster-go/deployster/internal/suggest"
)

// Match finds the names of stages or host groups of a pipeline for which one may stand: the
// name itself, or those whose last parts it is. If there are none, meant is the one that is
// spelt alike, or whose last part is.
func Match(pipeline, name string, known []string) (found []string, meant string) {
	byLast := map[string]string{}
	var lasts []string
	for _, k := range known {
		if Path(pipeline, k) == Path(pipeline, name) {
			return []string{k}, ""
		}
		if strings.HasSuffix(k, "/"+name) {
			found = append(found, k)
		}
		last := k[strings.LastIndexByte(k, '/')+1:]
		if _, twice := byLast[last]; !twice {
			byLast[last], lasts = k, append(lasts, last)
		}
	}
	if meant = suggest.Closest(name, known); meant == "" {
		meant = byLast[suggest.Closest(name, lasts)]
	}
	return found, meant
}
