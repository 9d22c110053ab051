package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/control/locked"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

// Request is a run that somebody asks for who is elsewhere. What it applies is what is kept
// under the digests, whatever files there are here.
type Request struct {
	Manifests []string          // below the workspace, in the order in which they are merged
	Carries   map[string]string // digests of the manifests, of what these include, and of the variables, by path
	Removing  bool              // it destroys what the manifests declare
	Orphans   bool              // it removes what no manifest declares any more; there are no manifests
	Targets   []string          // only these resources and what they depend on, or, to be removed, what depends on them; none is all
	Replace   []string          // resources that are removed and made again
	Prune     bool              // what the manifests no longer declare is removed
	KeepGoing bool
	Verbose   bool // types are asked to be

	Plan  string          // run that planned the same, to which the run is bound: what is not as planned is refused; "" is none
	Saved string          // digest of a saved plan, to which the run is bound in the same way; "" is none
	Again bool            // the saved plan is done from its beginning, whatever runs have done of it
	By    string          // who asks
	Mark  json.RawMessage // what the first event says of the request; nil is nothing
}

// plans reports whether a request is for the same as another one, whoever sends it.
func (r Request) plans(other Request) bool {
	r.Plan, r.By, r.Mark = other.Plan, other.By, other.Mark
	return reflect.DeepEqual(r, other)
}

// load loads what is asked for. Secrets are read from the files here that the variables name,
// and must be what they were for who asks.
func (r *Request) load(c *work.Config) (*work.Input, error) {
	if r.Orphans {
		return OrphansInput(c)
	}
	inputs := c.Inputs
	inputs.Verbose = r.Verbose
	var sources []manifest.Source
	for _, name := range r.Manifests {
		text, err := c.Texts.Load(r.Carries[name])
		if err != nil {
			return nil, fmt.Errorf("manifest %s: %w", name, err)
		}
		sources = append(sources, manifest.Source{Name: name, Data: text})
	}
	assigned, err := inputs.Assignments(c.Texts, r.Carries)
	var secret *work.InputError
	switch {
	case errors.As(err, &secret):
		return nil, &work.InputError{Cause: fmt.Errorf("%w; or say --allow-logged NAME of a variable that is no secret, so that its value is sent", err)}
	case err != nil:
		return nil, &work.InputError{Cause: err}
	}
	if assigned == nil { // or those of this workspace would be taken
		return nil, &work.InputError{Cause: fmt.Errorf("the request carries no variables: it must, as %s, even if there are none", revision.VariablesName)}
	}
	in, err := inputs.Load(sources, work.LoadOptions{
		Confirm: runner.ConfirmNo, Targets: slices.Clone(r.Targets), Replace: r.Replace, Removing: r.Removing, Included: c.Texts.Files(r.Carries), Assigned: assigned,
	})
	if err != nil || r.Removing {
		return in, err
	}
	return in, in.Conflicts()
}

// prepare describes the run on an engine. Closing stop has it begin nothing new.
func (r *Request) prepare(ctx context.Context, o Options, command string, stop <-chan struct{}) (*Run, error) {
	in, err := r.load(&o.Config)
	if err != nil {
		return nil, err
	}
	on, err := o.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if r.Orphans {
		run := PrepareOrphans(&o.Config, in, on, Order{Command: command, Stop: stop, Details: map[string]string{"user": cmp.Or(r.By, "unknown")}}, r.Targets)
		run.Control.Request = r.Mark
		return run, nil
	}
	if err := on.CheckPlugs(in.Manifest); err != nil {
		return nil, err
	}
	var files []string
	for _, name := range r.Manifests {
		files = append(files, filepath.Join(in.Workspace, filepath.FromSlash(name)))
	}
	run := Prepare(&o.Config, in, on, Order{
		Command: command, Files: files, Removing: r.Removing, Prune: r.Prune, Stop: stop, Details: map[string]string{"user": cmp.Or(r.By, "unknown"), "manifest": strings.Join(r.Manifests, " ")},
	})
	run.Control.Request, run.Control.Carries = r.Mark, r.Carries
	if digest := r.Carries[revision.ImagesName]; digest != "" {
		text, err := o.Config.Texts.Load(digest)
		if err == nil {
			run.Containers.Images, err = locked.Decoded(text, run.Containers.Images)
		}
		if err != nil {
			return nil, &work.InputError{Cause: fmt.Errorf("the images that are locked: %w", err)}
		}
	}
	if r.Saved != "" {
		return run, r.bind(&o.Config, run)
	}
	return run, nil
}
