package work

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/usage"
	"github.com/deployster-go/deployster/manifest/vars"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/schema"
)

// Draft is what is to be a revision of an environment.
type Draft struct {
	*definition.Definition
	Files    Carried           // the manifest with all that it includes
	Assigned []vars.Assignment // the variables; nil are those that the definition carries
	Unread   []vars.Assignment // variables that were given, and that nothing reads
	Hosts    []string          // that the definition selects at present
	Usage    *usage.Variables  // what something else reads of the variables; may be nil
}

// Removable fails with a *manifest.Error where what the manifest of a draft makes cannot
// be removed again, and as the runner does where it is otherwise wrong. That is asked on
// the first of the hosts that answers; without any, on the default engine, with a host that
// has no name and no attributes. unread receives the variables that nothing reads, before
// anything is asked, and secret those of the definition that secret parts of configurations
// read, in the end. It returns what types say of their configurations.
func (w *TaskWorker) Removable(ctx context.Context, d Draft, unread func([]manifest.Problem) error, secret func([]runner.SecretUse) error) (map[string]*schema.Schema, error) {
	host, on, err := w.pool.search().First(ctx, d.Hosts)
	if err != nil {
		return nil, fmt.Errorf("checking whether the resources of %s can be removed: %w", d.Task.Manifest, err)
	}
	run, err := w.prepareDraft(on, d, host)
	if err == nil {
		err = run.Conflicts()
	}
	if err != nil {
		return nil, err
	}
	defer w.asProbe(run)()
	if err := unread(w.taskUnread(run.Usage)); err != nil {
		return nil, err
	}
	r := runner.New(run.Spec, run.Containers)
	if err := r.Removable(ctx, run.Caller); err != nil {
		return nil, err
	}
	return r.Schemas(), secret(r.SecretUses(slices.Sorted(maps.Keys(d.Files)), slices.Sorted(maps.Keys(d.Task.Vars))...))
}

// prepareDraft prepares a run of what a draft would be on a host.
func (w *TaskWorker) prepareDraft(on *Connection, d Draft, host string) (*Run, error) {
	o := LoadOptions{Included: d.Files.Files(), Assigned: d.Assigned, Usage: cmp.Or(d.Usage, &usage.Variables{})}
	for _, a := range d.Unread {
		a.Note(o.Usage)
	}
	if o.Assigned == nil {
		var err error
		if o.Assigned, err = w.Assignments(w.Texts, d.Task.Includes); err != nil {
			return nil, err
		}
		if o.images, err = w.Texts.images(d.Task.Includes); err != nil {
			return nil, err
		}
	}
	t := tasks.Task{Environment: d.Name, Host: host, Revision: 1, Spec: d.Task}
	return w.prepareTask(on, t, manifest.Source{Name: d.Task.Manifest, Data: d.Files[d.Task.Manifest]}, o)
}

// taskUnread are the variables of a task that nothing reads, those of its
// definition among them, but for those that a promotion set.
func (w *TaskWorker) taskUnread(u *usage.Variables) []manifest.Problem {
	var unread []manifest.Problem
	for _, p := range u.Unread() {
		if p.File == "" {
			if slices.Contains(w.promoted, p.Path) {
				continue
			}
			p.Path = "task.vars." + p.Path
		}
		unread = append(unread, p)
	}
	return unread
}
