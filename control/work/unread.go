package work

import (
	"slices"

	"github.com/deployster-go/deployster/control/promotion"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/pipeline"
)

// taskUnread are the variables of a task that nothing reads, those of its
// definition among them, but for those that a promotion set.
func taskUnread(u *manifest.Usage) []manifest.Problem {
	var unread []manifest.Problem
	for _, p := range u.Unread() {
		if p.Position.File == "" {
			if slices.Contains(promotion.Variables(), p.Path) {
				continue
			}
			p.Path = "task.vars." + p.Path
		}
		unread = append(unread, p)
	}
	return unread
}

// Unread are the variables of the process that none of the tasks reads. Where the
// manifest of one cannot be loaded without its host, that is not known.
func (w *TaskWorker) Unread(tasks []environment.Task) []manifest.Problem {
	if len(w.Variables) == 0 {
		return nil
	}
	usage := &manifest.Usage{}
	for _, t := range tasks {
		text, err := w.manifests.Load(t.Spec.Digest)
		if err != nil {
			return nil
		}
		if _, err := w.load(t, manifest.Source{Name: t.Spec.Manifest, Data: text}, usage); err != nil {
			return nil
		}
	}
	return slices.DeleteFunc(usage.Unread(), func(p manifest.Problem) bool { return p.Position.File == "" })
}

// Unread are the variables of the process that no manifest of the pipelines
// reads. Where one cannot be loaded without its host, or the task of an
// environment may read them, that is not known.
func (w *StepWorker) Unread(pipelines []*pipeline.Definition) []manifest.Problem {
	if len(w.Variables) == 0 {
		return nil
	}
	usage, known := &manifest.Usage{}, true
	for _, d := range pipelines {
		known = known && !slices.ContainsFunc(d.Stages, func(s pipeline.Stage) bool { return s.Environment != "" })
		d.Manifests(func(stage string, path *string) {
			step := pipeline.Step{Target: pipeline.Target(d.Name), Stage: stage}
			_, err := w.load(*path, LoadOptions{Builtin: w.variables(step, nil), Usage: usage})
			known = known && err == nil
		})
	}
	if !known {
		return nil
	}
	return usage.Unread()
}
