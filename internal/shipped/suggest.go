package shipped

import (
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/suggest"
)

func unknownType(name string) error {
	hint := ""
	near := suggest.Closest(name, Names())
	if i := slices.IndexFunc(Names(), func(known string) bool { return len(name) > 2 && strings.HasPrefix(known, name) }); i >= 0 {
		near = Names()[i] // an abbreviation, such as net
	}
	if near != "" {
		hint = fmt.Sprintf("; did you mean %s%s?", Prefix, near)
	}
	return fmt.Errorf("%s%s is not a resource type that ships with Deployster%s (there are %s; an image of that name in a registry needs a tag)",
		Prefix, name, hint, strings.Join(Names(), ", "))
}
