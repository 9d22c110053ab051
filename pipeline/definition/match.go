package definition

import (
	"fmt"
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

// Unknown says that a pipeline has nothing of a name, what may have been meant, and else
// what there is.
func Unknown(pipeline, what, name string, known []string) string {
	text := fmt.Sprintf("%s %q of pipeline %s: ", what, name, pipeline)
	if meant := suggest.Closest(name, known); meant != "" {
		return text + "did you mean " + meant + "?"
	}
	if len(known) == 0 {
		return text + "it has none"
	}
	const most = 10
	listed := strings.Join(known[max(0, len(known)-most):], ", ")
	if len(known) > most {
		listed = "…, " + listed
	}
	return text + "it has " + listed
}
