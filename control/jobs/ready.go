package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/engine"
)

// ready finds what the job runs, and its worker.
func (a *attempt) ready(ctx context.Context) error {
	if err := a.load(); err != nil {
		return err
	}
	if err := a.resolve(ctx); err != nil {
		return err
	}
	return a.reach(ctx)
}

// load reads what the job runs.
func (a *attempt) load() error {
	name := recipe.Name(a.task.Recipe)
	hash, carried := a.task.Carries[name]
	if !carried {
		return unbuildable("its group does not carry what it runs (%s): submit it again", name)
	}
	read, err := a.recipes(hash)
	switch {
	case err != nil && momentary(err):
		return fmt.Errorf("what it runs cannot be read: %w", err)
	case err != nil:
		return unbuildable("what it runs cannot be read: object %s, which its group carries as %s: %v; restore it, or submit the group again", hash, name, err)
	}
	if a.recipe, err = recipe.Select(read.from, read.all, a.task.Recipe); err != nil {
		return unbuildable("what it runs cannot be read: %v", err)
	}
	return nil
}

// decoded is a document of recipes that was read.
type decoded struct {
	hash string
	from int
	all  []recipe.Recipe
}

// recipes is a document of recipes. That which was read last is not read again, as its hash
// names it: the jobs of a group have one in common, which holds the recipes of a thousand.
func (j *Jobs) recipes(hash string) (decoded, error) {
	j.mu.Lock()
	last := j.last
	j.mu.Unlock()
	if last.hash == hash {
		return last, nil
	}
	text, err := j.Object(hash)
	if err != nil {
		return decoded{}, err
	}
	from, all, err := recipe.Decode(text)
	if err != nil {
		return decoded{}, err
	}
	read := decoded{hash, from, all}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last = read
	return read, nil
}

// reach connects to the worker.
func (a *attempt) reach(ctx context.Context) error {
	var err error
	if a.worker, err = a.Worker(ctx, a.task.Worker); err != nil {
		return err
	}
	if a.worker.Info.Remote {
		return fmt.Errorf("the engine of worker %s, %s at %s, does not see the files of this machine, and jobs need them: give it no jobs, or dispatch them where it runs",
			a.task.Worker, a.worker.Info.Name, a.worker.Info.Address)
	}
	return nil
}

// getImage makes the image available on the worker, with the content that the group carries.
func (a *attempt) getImage(ctx context.Context) error {
	i := a.recipe.Image
	pinned := revision.Pinned{
		Holder: a.worker.Images, Carrier: "the group", Anew: "submit it again",
		Carried: []revision.Image{{Image: i.Image, ID: i.ID, Digest: i.Digest, Unpinned: i.Unpinned}},
	}
	image, err := pinned.Image(ctx, i.Image, a.Pull, nil)
	var unreachable *engine.UnreachableError
	switch {
	case err == nil:
		a.image = image
		return nil
	case ctx.Err() != nil, errors.Is(err, engine.ErrUnavailable), errors.As(err, &unreachable), momentary(err), a.silent(ctx):
		return fmt.Errorf("image %s: %w", i.Image, err)
	default:
		return unbuildable("image %s: %v", i.Image, err)
	}
}

// silent reports whether the engine does not answer.
func (a *attempt) silent(ctx context.Context) bool {
	asking, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	_, err := a.worker.Engine.Info(asking)
	return err != nil
}
