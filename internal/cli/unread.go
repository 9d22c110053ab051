package cli

import (
	"context"
	"fmt"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/runner"
)

// mostUnread is of how many variables that nothing reads is told. A file of
// variables may be made for many manifests.
const mostUnread = 10

// heed warns of variables that somebody gave and nothing reads, which are
// mistyped, perhaps; with --strict they are an error.
func (a *app) heed(unread []manifest.Problem, strict bool) error {
	if len(unread) == 0 {
		return nil
	}
	if strict {
		return &usageError{&manifest.Error{Problems: unread}}
	}
	more := max(0, len(unread)-mostUnread)
	for _, p := range unread[:len(unread)-more] {
		fmt.Fprintf(a.err, "warning: %s\n", view.Clean(p.String()))
	}
	if more > 0 {
		fmt.Fprintf(a.err, "warning: nothing reads %s more\n", count(more, "variable"))
	}
	return nil
}

// loadHeeded is load of manifests that somebody named, who is warned of variables
// that nothing reads.
func (a *app) loadHeeded(files []string, flags inputFlags, confirm runner.ConfirmMode) (*work.Input, error) {
	in, err := a.load(files, flags, confirm)
	if err == nil {
		err = a.heed(in.Usage.Unread(), flags.strict)
	}
	return in, err
}

// heedTasks warns of variables of the command line that no revision of the
// environments reads.
func (a *app) heedTasks(w *workers, e *environmentSet, names []string, strict bool) error {
	var tasks []environment.Task
	for _, name := range names {
		_ = e.Ask(name, func(s *environment.State) error {
			for _, r := range s.Revisions() {
				tasks = append(tasks, environment.Task{Environment: name, Revision: r.Number, Spec: r.Definition.Task})
			}
			return nil
		})
	}
	return a.heed(w.tasks.Unread(tasks), strict)
}

// heedPipelines warns of variables of the command line that no manifest of the
// pipelines reads.
func (a *app) heedPipelines(ctx context.Context, log deploylog.Log, w *workers, names []string, strict bool) error {
	p := pipelines.NewPipelines(log, a.now)
	if err := p.Follow(ctx, 0); err != nil {
		return err
	}
	if len(names) == 0 {
		names = p.Present()
	}
	var definitions []*pipeline.Definition
	for _, name := range names {
		_ = p.Ask(name, func(s *pipeline.State) error {
			if d := s.Definition(); d != nil {
				definitions = append(definitions, d)
			}
			return nil
		})
	}
	return a.heed(w.steps.Unread(definitions), strict)
}
