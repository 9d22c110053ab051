package work

import (
	"errors"
	"fmt"

	"github.com/deployster-go/deployster/control/inclusion"
	"github.com/deployster-go/deployster/expression"
)

// Included are the files of the workspace that the configurations of resources may include,
// as they are now; frozen are all files of the workspace, these as they are now. open names the
// resources of which that may be any file.
func (in *Input) Included(resources ...string) (files Carried, frozen expression.Files, open []string, err error) {
	c := inclusion.New(in.Workspace, map[string][]byte{}, map[string]string{})
	for _, name := range resources {
		r := in.Manifest.Stands(name)
		if r == nil {
			continue
		}
		possible, err := r.Possible(c.Expressions)
		if err == nil {
			err = c.Follow(possible)
		}
		switch {
		case possible.Anywhere() || errors.Is(err, inclusion.ErrAnywhere):
			open = append(open, name)
		case err == nil:
			err = c.Bounded()
		}
		if err != nil && !errors.Is(err, inclusion.ErrAnywhere) {
			return nil, nil, nil, &InputError{fmt.Errorf("resource %s: %w", name, err)}
		}
	}
	return c.Files, c.Frozen(), open, nil
}
