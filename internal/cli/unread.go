package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/promotion"
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
func (a *app) loadHeeded(files []string, flags inputFlags, confirm string) (*input, error) {
	in, err := a.load(files, flags, confirm)
	if err == nil {
		err = a.heed(in.usage.Unread(), flags.strict)
	}
	return in, err
}

// taskUnread are the variables of a task that nothing reads, those of its
// definition among them, but for those that a promotion set.
func taskUnread(u *manifest.Usage) []manifest.Problem {
	var unread []manifest.Problem
	for _, p := range u.Unread() {
		if p.Position.File == "" {
			if slices.Contains(promotion.PromotionVariables(), p.Path) {
				continue
			}
			p.Path = "task.vars." + p.Path
		}
		unread = append(unread, p)
	}
	return unread
}

// heed warns of variables of the command line that no revision of the
// environments reads. Where one cannot be loaded without its host, nobody knows.
func (c *taskCrew) heed(e *environmentSet, names []string) error {
	if len(c.input.variables) == 0 {
		return nil
	}
	flags := c.input
	flags.usage = &manifest.Usage{}
	for _, name := range names {
		var revisions []environment.Revision
		_ = e.Ask(name, func(s *environment.State) error { revisions = s.Revisions(); return nil })
		for _, r := range revisions {
			text, err := c.pinned.load(r.Definition.Task.Digest)
			if err != nil {
				return nil
			}
			t := environment.Task{Environment: name, Revision: r.Number, Spec: r.Definition.Task}
			flags.last, flags.builtin = t.Spec.Vars, taskVariables(t, c.hosts)
			if _, err := c.app.loadSources([]manifest.Source{{Name: t.Spec.Manifest, Data: text}}, flags, string(runner.ConfirmNo)); err != nil {
				return nil
			}
		}
	}
	unread := slices.DeleteFunc(flags.usage.Unread(), func(p manifest.Problem) bool { return p.Position.File == "" })
	return c.app.heed(unread, c.input.strict)
}

// heed warns of variables of the command line that no manifest of the pipelines
// reads. Where one cannot be loaded without its host, or the task of an
// environment may read them, nobody knows.
func (c *crew) heed(ctx context.Context, names []string) error {
	if len(c.input.variables) == 0 {
		return nil
	}
	p := pipelines.NewPipelines(c.log, c.app.now)
	if err := p.Follow(ctx, 0); err != nil {
		return err
	}
	if len(names) == 0 {
		names = p.Present()
	}
	flags := c.input
	flags.usage = &manifest.Usage{}
	known := true
	for _, name := range names {
		_ = p.Ask(name, func(s *pipeline.State) error {
			d := s.Definition()
			if d == nil {
				return nil
			}
			known = known && !slices.ContainsFunc(d.Stages, func(s pipeline.Stage) bool { return s.Environment != "" })
			d.Manifests(func(stage string, path *string) {
				flags.builtin = c.variables(pipeline.Step{Target: pipeline.Target(name), Stage: stage}, nil)
				_, err := c.app.load([]string{filepath.Join(c.workspace, filepath.FromSlash(*path))}, flags, string(runner.ConfirmNo))
				known = known && err == nil
			})
			return nil
		})
	}
	if !known {
		return nil
	}
	return c.app.heed(flags.usage.Unread(), c.input.strict)
}
