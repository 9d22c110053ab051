package session

import (
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

// RefuseLogged refuses variables of tasks that secret parts of configurations read, for the log
// keeps them as they are, but for those that somebody says are no secrets.
func RefuseLogged(uses []runner.SecretUse, public []string) error {
	var problems []manifest.Problem
	for _, use := range uses {
		if slices.Contains(public, use.Variable) {
			continue
		}
		problems = append(problems, manifest.Problem{
			Position: use.Position, Path: use.Path,
			Message: fmt.Sprintf("is secret and reads task.vars.%s, which the log would keep as it is: take it out of task.vars and give it in a file of variables (--var-file), or say --allow-logged %s where it is no secret",
				use.Variable, use.Variable),
		})
	}
	if len(problems) == 0 {
		return nil
	}
	return exit.Invalid(&manifest.Error{Problems: problems})
}
