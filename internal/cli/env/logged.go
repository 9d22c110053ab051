package env

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/runner"
)

// registerDrafting adds the flags of what makes a revision.
func (w *workFlags) registerDrafting(c *cobra.Command) {
	w.RegisterPinning(c, &w.allowLogged, &w.allowUnpinned)
}

// refuseLogged refuses variables of a task that secret parts of configurations read, for
// the log keeps the definition as it is. A variable that the base has was allowed there, if
// the base was made of the same files by a version that looked: it is no secret then,
// whatever its value becomes.
func (w *workFlags) refuseLogged(uses []runner.SecretUse, d draft, base *definition.Definition) error {
	return w.refuseUses(uses, base, base != nil && lookedAt(base) && sameFiles(base, d.Definition))
}

// refuseLoggedVerifying is the same of what verifies the steps.
func (w *workFlags) refuseLoggedVerifying(uses []runner.SecretUse, d draft, base *definition.Definition) error {
	same := base != nil && sameTexts(base.Deployment.VerifyFiles, d.Deployment.VerifyFiles)
	return w.refuseUses(uses, base, same)
}

func (w *workFlags) refuseUses(uses []runner.SecretUse, base *definition.Definition, looked bool) error {
	uses = slices.DeleteFunc(slices.Clone(uses), func(use runner.SecretUse) bool {
		if !looked {
			return false
		}
		_, allowed := base.Task.Vars[use.Variable]
		return allowed
	})
	return session.RefuseLogged(uses, w.allowLogged)
}

// sameFiles reports whether two definitions carry the same manifest, whatever the
// variables are.
func sameFiles(a, b *definition.Definition) bool {
	return a.Task.Digest == b.Task.Digest && sameTexts(a.Task.Includes, b.Task.Includes)
}

// sameTexts reports whether what is carried is the same but for variables and images.
func sameTexts(a, b map[string]string) bool {
	from, to := maps.Clone(a), maps.Clone(b)
	for _, name := range []string{revision.VariablesName, revision.ImagesName, revision.OmittedName} {
		delete(from, name)
		delete(to, name)
	}
	return maps.Equal(from, to)
}

// lookedAt reports whether the variables of a base were looked at when it was made: former
// versions did not, and their revisions carry nothing that is included.
func lookedAt(base *definition.Definition) bool { return base.Task.Includes != nil }

// addsVariables reports whether a task has variables that its base has not, or that were
// not looked at there: whether they are read, and by something secret, was not seen when
// the base was made.
func addsVariables(base, d *definition.Definition) bool {
	for name := range d.Task.Vars {
		if _, before := base.Task.Vars[name]; !before || !lookedAt(base) {
			return true
		}
	}
	return false
}
