package work

import (
	"slices"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/usage"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// Unread are the variables of the process that none of the tasks reads. Where the
// manifest of one cannot be loaded without its host, that is not known. Tasks of
// revisions that carry their variables do not get those of the process.
func (w *TaskWorker) Unread(all []tasks.Task) []manifest.Problem {
	if len(w.Variables) == 0 {
		return nil
	}
	before := len(all)
	all = slices.DeleteFunc(slices.Clone(all), func(t tasks.Task) bool { return carriesVariables(t.Spec.Includes) })
	if before > 0 && len(all) == 0 {
		return w.unreached("revisions of environments carry their variables, so no task gets this one: give it to env update, and deploy the revision that it makes")
	}
	read := &usage.Variables{}
	for _, t := range all {
		o, err := w.carried(t)
		if err != nil {
			return nil
		}
		text, err := w.Texts.Load(t.Spec.Digest)
		if err != nil {
			return nil
		}
		o.Usage = read
		if _, err := w.load(t, manifest.Source{Name: t.Spec.Manifest, Data: text}, o); err != nil {
			return nil
		}
	}
	return slices.DeleteFunc(read.Unread(), func(p manifest.Problem) bool { return p.File == "" })
}

func carriesVariables(files map[string]string) bool {
	_, carried := files[revision.VariablesName]
	return carried
}

// unreached are the variables of the process, which reach nothing.
func (i Inputs) unreached(why string) (problems []manifest.Problem) {
	for _, v := range i.Variables {
		at := manifest.Position{File: "--var " + v.Name}
		if v.File != "" {
			at.File = "--var-file " + v.File
		}
		problems = append(problems, manifest.Problem{Position: at, Message: why})
	}
	return problems
}

// Revision is one that goes through a pipeline, with what it carries.
type Revision struct {
	Pipeline *definition.Definition
	Name     string
	Files    record.Files // nil of one that an older version released
}

// Unread are the variables of the process that no manifest of the revisions reads. Where
// one cannot be loaded without its host, or the task of an environment may read them,
// that is not known. Revisions that carry their variables do not get those of the
// process.
func (w *StepWorker) Unread(revisions []Revision) []manifest.Problem {
	if len(w.Variables) == 0 {
		return nil
	}
	read, known, reached := &usage.Variables{}, true, false
	for _, r := range revisions {
		known = known && !slices.ContainsFunc(r.Pipeline.Stages, func(s definition.Stage) bool { return s.Environment != "" })
		if carriesVariables(r.Files) {
			continue
		}
		reached = true
		r.Pipeline.Manifests(func(stage string, path *string) {
			step := step.Step{Target: record.Target(r.Pipeline.Name), Revision: r.Name, Stage: stage, Manifest: *path}
			if _, carried := r.Files[*path]; carried {
				step.Files = r.Files
			}
			_, err := w.loadStep(step, LoadOptions{Builtin: w.variables(step, nil), Usage: read})
			known = known && err == nil
		})
	}
	switch {
	case !known:
		return nil
	case !reached:
		return w.unreached("revisions of pipelines carry their variables, so none gets this one: give it to pipeline release")
	}
	return read.Unread()
}

// GivenUnread are the variables that were given for a collection and that nothing reads.
func (c *Collection) GivenUnread() []manifest.Problem {
	read := &usage.Variables{}
	for _, a := range slices.Concat(c.Assignments, c.Unread) {
		a.Note(read)
	}
	for _, m := range c.manifests {
		read.Examine(c.evaluator, manifest.Written(m))
	}
	for _, a := range c.Assignments {
		read.Examine(c.evaluator, a.Value)
	}
	return read.Unread()
}
