package work

import (
	"errors"
	"fmt"

	"github.com/deployster-go/deployster/expression"
)

// Included are the files of the workspace that the configurations of resources may include,
// as they are now; frozen are all files of the workspace, these as they are now. open names the
// resources of which that may be any file.
func (in *Input) Included(resources ...string) (files Carried, frozen expression.Files, open []string, err error) {
	c := &collector{workspace: in.Workspace, files: Carried{}, omitted: map[string]string{}}
	c.evaluator = expression.Over(c.read)
	for _, name := range resources {
		r := in.Manifest.Resource(name)
		if r == nil {
			continue
		}
		possible, err := c.evaluator.Possible(any(r.Config))
		if err == nil {
			err = c.follow(possible)
		}
		switch {
		case possible.Anywhere || errors.Is(err, errAnywhere):
			open = append(open, name)
		case err == nil:
			err = c.bounded()
		}
		if err != nil && !errors.Is(err, errAnywhere) {
			return nil, nil, nil, &InputError{fmt.Errorf("resource %s: %w", name, err)}
		}
	}
	return c.files, expression.Frozen(in.Workspace, c.files, c.seen, c.omitted), open, nil
}
