package suggest

import (
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/internal/pattern"
)

// short matches what git clone takes for a repository on another machine.
var short = pattern.Lazy(`^([A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*):([^/:][^:]*|/[^/:][^:]*)$`)

// validRef matches what may be shown of what stands behind the ?, which may also be a secret.
var validRef = pattern.Lazy(`^ref=[A-Za-z0-9_][A-Za-z0-9_./+-]*$`)

// GitSource is how the source of a module is written of which somebody wrote USER@HOST:PATH, as for
// git clone; "" of anything else.
func GitSource(text string) string {
	where, query, _ := strings.Cut(strings.TrimPrefix(text, "git::"), "?")
	parts := short().FindStringSubmatch(where)
	if parts == nil {
		return ""
	}
	repository, dir, below := strings.Cut(strings.TrimPrefix(parts[2], "/"), "//")
	if !below {
		dir = "DIRECTORY"
	}
	if !validRef().MatchString(query) {
		query = "ref=TAG"
	}
	return fmt.Sprintf("git::ssh://%s/%s//%s?%s", parts[1], repository, dir, query)
}
