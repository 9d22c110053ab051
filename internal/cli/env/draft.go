package env

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/control/reachable"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/usage"
	"github.com/deployster-go/deployster/manifest/vars"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/schema"
)

// draft is a definition that is to be a revision, with the files that it is to carry and
// the hosts that it selects at present.
type draft struct {
	*definition.Definition
	files     work.Carried
	collected *work.Collection // whose variables are to be carried; nil where they stay what they were
	images    []byte           // that its base carries, which stay what they are; nil where they are to be those of now
	hosts     []string
	usage     usage.Variables    // what verifies the steps reads of the variables
	unread    []manifest.Problem // variables that nothing reads, once it is recorded
}

// collect makes a definition one of the present variables, and of the present texts of its
// manifest and of all that these include.
func collect(a *app.App, d *definition.Definition, flags workFlags) (*work.Collection, error) {
	text, err := work.ReadFile(filepath.Join(a.Workspace, filepath.FromSlash(d.Task.Manifest)))
	if err != nil {
		return nil, exit.Invalid(err)
	}
	collected, err := collectOf(a, d, text, nil, flags)
	if err != nil {
		return nil, err
	}
	return collected, collected.Unchanged(a.Workspace)
}

// collectOf is collect with a text of the manifest. With kept, which another revision
// carries, it has what it includes.
func collectOf(a *app.App, d *definition.Definition, text []byte, kept work.Carried, flags workFlags) (*work.Collection, error) {
	source := manifest.Source{Name: d.Task.Manifest, Data: text}
	given, err := session.Assignments(a, flags.Input, work.TaskVariables(tasks.Task{}, work.NewHosts(flags.Inventory)), source)
	if err != nil {
		return nil, err
	}
	collected, err := work.Collect(a.Workspace, kept, given, source)
	if err != nil {
		return nil, err
	}
	carry(d, collected.Files)
	return collected, session.NoteOmitted(a, collected)
}

// carry makes a definition one that carries files.
func carry(d *definition.Definition, files work.Carried) {
	d.Task.Includes = files.Digests()
	d.Task.Digest = d.Task.Includes[d.Task.Manifest]
	delete(d.Task.Includes, d.Task.Manifest)
}

// carried has a draft carry the files that its base carries, with the images of that. A base
// of a former version may carry its manifest only, and no variables: these are taken as they
// are now.
func carried(a *app.App, d *draft, flags workFlags) error {
	texts, err := a.Texts()
	if err != nil {
		return err
	}
	if d.files, err = texts.LoadAll(work.TaskFiles(d.Task)); err != nil {
		return err
	}
	_, variables := d.files[revision.VariablesName]
	d.images = d.files[revision.ImagesName]
	if variables && d.images != nil && len(flags.Input.Variables) == 0 {
		return nil
	}
	text, kept := d.files[d.Task.Manifest], d.files
	if d.Task.Includes == nil {
		kept = nil
	}
	if d.collected, err = collectOf(a, d.Definition, text, kept, flags); err != nil {
		return err
	}
	d.files = d.collected.Files
	return nil
}

// recordDraft has a draft recorded by a command. base is the revision that it is made from,
// nil of the first.
func recordDraft(
	ctx context.Context, a *app.App, e *query.Environments, c environment.Command, d *draft, base *definition.Definition, flags workFlags,
) ([]deploylog.Event, error) {
	things, err := session.Things(ctx, a, flags.WorkerFlags, d.files)
	if err != nil {
		return nil, err
	}
	e.Identify(things, nil)
	if err := e.Overlaps(d.Definition, d.hosts); err != nil {
		return nil, err
	}
	verifying, err := collectVerifying(ctx, a, d, base, flags)
	if err != nil {
		return nil, err
	}
	var schemas map[string]*schema.Schema
	if base == nil || d.collected != nil || slices.ContainsFunc(definition.Diff(base, d.Definition), ofTask) {
		schemas, err = checkTask(ctx, a, e.Log, d, base, flags)
		if errors.Is(err, reachable.ErrNone) && base != nil && sameFiles(base, d.Definition) && !addsVariables(base, d.Definition) {
			fmt.Fprintf(a.Err, "note: %s\n", view.Clean(err.Error())) // it could be, when the base was made
			if err := sameImages(ctx, a, *d, base, flags); err != nil {
				return nil, err
			}
		} else if err != nil {
			return nil, err
		}
	}
	if err := errors.Join(keep(a, *d, schemas, flags), keepVerifying(a, verifying)); err != nil {
		return nil, err
	}
	events, err := e.Command(ctx, d.Name, c, d.hosts...)
	if err == nil {
		noticeSurprises(a, *d, session.Hosts(ctx, a, flags.Inventory))
	}
	return events, err
}

// ofTask reports whether a difference is one of the task.
func ofTask(c definition.Difference) bool { return strings.HasPrefix(c.Path, "task.") }

// document adds to what is shown of a revision in JSON what was warned of.
func (d *draft) document(shown map[string]any) map[string]any {
	if len(d.unread) > 0 {
		shown["warnings"] = d.unread
	}
	return shown
}

// pinImages lets a draft carry images, as they are on the first of its hosts that answers.
// Those that base carries stay what they are.
func pinImages(ctx context.Context, a *app.App, pool *work.EnginePool, d draft, base []byte, flags workFlags) error {
	policy, err := flags.Engine.Policy()
	if err != nil {
		return err
	}
	tasks, err := session.Identities(a, flags.WorkerFlags, d.files)
	if err != nil {
		return err
	}
	ask, err := session.AskActions(a, flags.WorkerFlags)
	if err != nil {
		return err
	}
	p := work.ImagePinning{Ask: ask, Pool: pool, Policy: policy, Unpinned: flags.allowUnpinned, Base: base, Places: tasks.Places(d.Definition, d.hosts)}
	if err := d.files.PinImages(ctx, p, manifest.Source{Name: d.Task.Manifest, Data: d.files[d.Task.Manifest]}); err != nil {
		return err
	}
	carry(d.Definition, d.files)
	return nil
}

// keep keeps all that a draft carries.
func keep(a *app.App, d draft, schemas map[string]*schema.Schema, flags workFlags) error {
	if d.collected != nil {
		pinning, err := session.Pinning(a, flags.Input, flags.allowLogged)
		if err != nil {
			return err
		}
		pinning.Schemas = schemas
		if err := d.collected.Pin(pinning); err != nil {
			return err
		}
		carry(d.Definition, d.files)
	}
	texts, err := a.Texts()
	if err != nil {
		return err
	}
	return texts.KeepAll(d.files)
}

// sameImages lets a draft whose manifest is that of its base carry the images of that,
// where no host answers.
func sameImages(ctx context.Context, a *app.App, d draft, base *definition.Definition, flags workFlags) (err error) {
	texts, err := a.Texts()
	if err != nil {
		return err
	}
	var images []byte
	if digest, carried := base.Task.Includes[revision.ImagesName]; carried {
		if images, err = texts.Load(digest); err != nil {
			return err
		}
	}
	pool := session.OpenPool(a, flags.WorkerFlags, a.Err)
	return errors.Join(pinImages(ctx, a, pool, d, images, flags), pool.Close())
}

// checkTask makes sure that the manifest of a draft is sound, and what it makes can be
// removed again. It returns what types say of their configurations.
func checkTask(ctx context.Context, a *app.App, log deploylog.Log, d *draft, base *definition.Definition, flags workFlags) (schemas map[string]*schema.Schema, err error) {
	ctx, signals := interrupt.Handle(ctx, func(string) {})
	defer signals.Done()
	log, closed, err := a.Drafting(ctx, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closed()) }()
	workers, err := session.OpenWorkers(ctx, a, log, flags.WorkerFlags, a.Err)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, workers.Close(ctx)) }()
	asking, cancel := signals.Context(ctx)
	defer cancel()
	w := work.Draft{Definition: d.Definition, Files: d.files, Hosts: d.hosts, Usage: &d.usage}
	if d.collected != nil {
		w.Assigned, w.Unread = append([]vars.Assignment{}, d.collected.Assignments...), d.collected.Unread
	}
	schemas, err = workers.Tasks.Removable(asking, w, func(unread []manifest.Problem) error {
		d.unread = unread
		return session.WarnUnread(a, unread, flags.Input.Strict)
	}, func(uses []runner.SecretUse) error { return flags.refuseLogged(uses, *d, base) })
	if err == nil {
		err = pinImages(asking, a, workers.EnginePool, *d, d.images, flags)
	}
	if signals.Interrupted() {
		return nil, exit.Reported(runner.ErrInterrupted)
	}
	return schemas, err
}
