package env

import (
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/session"
)

// heedTasks warns of variables of the command line that no revision of the
// environments reads.
func heedTasks(a *app.App, w *session.Workers, e *environmentSet, names []string, strict bool) error {
	var tasks []environment.Task
	for _, name := range names {
		_ = e.Ask(name, func(s *environment.State) error {
			for _, r := range s.Revisions() {
				tasks = append(tasks, environment.Task{Environment: name, Revision: r.Number, Spec: r.Definition.Task})
			}
			return nil
		})
	}
	return session.Heed(a, w.Tasks.Unread(tasks), strict)
}
