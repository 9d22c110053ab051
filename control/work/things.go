package work

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/vars"
)

// Identities find out what tasks make on their hosts, without asking those.
type Identities struct {
	Inputs
	Texts  Texts
	Hosts  *Hosts
	Drafts Carried // files that a revision is to carry, which need not be kept yet
}

// Things are what a task makes on its host of which there is one. None is not known. What
// is known only by asking a type is identified by what is applied, but where a resource
// says how it is told apart: by reading the name of its task.
func (i Identities) Things(t tasks.Task) (things []tasks.Thing) {
	in, err := i.load(t)
	if err != nil {
		return nil
	}
	host, _ := i.Hosts.host(t.Host)
	check := in.shipped()
	check.Here = host.IsHere()
	return in.things(t, check.Things())
}

// load loads the manifest of a task without some of the variables that nobody else can set.
func (i Identities) load(t tasks.Task, without ...string) (*Input, error) {
	drafts := map[string][]byte{}
	for name, digest := range i.Drafts.Digests() {
		drafts[digest] = i.Drafts[name]
	}
	load := func(digest string) ([]byte, error) {
		if text, ok := drafts[digest]; ok {
			return text, nil
		}
		return i.Texts.Load(digest)
	}
	text, err := load(t.Spec.Digest)
	if err != nil {
		return nil, err
	}
	included := includedBy(t, load)
	assigned, err := i.assumed(t, included)
	if err != nil {
		return nil, err
	}
	own := TaskVariables(t, i.Hosts)
	for _, name := range without {
		delete(own, name)
	}
	return i.Load([]manifest.Source{{Name: t.Spec.Manifest, Data: text}}, LoadOptions{
		Last: t.Spec.Vars, Builtin: own, Included: included, Assigned: assigned, Partly: true,
	})
}

// assumed are the variables of a task with the present values of its secrets. That one of
// them was changed since makes nothing else unknown: what two environments make in one place
// must be refused also then.
func (i Identities) assumed(t tasks.Task, included expression.Files) ([]vars.Assignment, error) {
	all, err := i.present(i.Texts, t.Spec.Includes)
	if err != nil || all == nil {
		return nil, err
	}
	rest, _ := without(all, included, slices.Sorted(maps.Keys(TaskFiles(t.Spec))), isGone)
	return rest, nil
}

// includedBy are the files that the revision of a task carries beside its manifest; nil are
// those of the workspace, of a revision that carries none.
func includedBy(t tasks.Task, load func(digest string) ([]byte, error)) expression.Files {
	if t.Spec.Includes == nil {
		return nil
	}
	return filesOf(TaskFiles(t.Spec), load)
}

// things are what the resources of a task manage, of which some is known.
func (in *Input) things(t tasks.Task, known []shipped.Thing) (things []tasks.Thing) {
	spec := t.Spec
	spec.Manifest = ""
	applied, err := json.Marshal(spec)
	if err != nil {
		return nil
	}
	for _, thing := range known {
		found := tasks.Thing{Key: thing.Key, Name: thing.Name}
		if r := thing.Resource; found.Key == "" {
			if named, err := in.Expressions.Reads(r.Made(in.Expressions), "task"); named && err == nil {
				found.Key = objects.Hash([]byte(r.Name + "\x00" + string(record.TaskTarget(t.Environment, t.Revision, t.Host))))
			} else {
				found.Key = objects.Hash([]byte(r.Name + "\x00" + string(applied)))
			}
			found.Name = "resource " + r.Name + " of " + t.Spec.Manifest
		}
		things = append(things, found)
	}
	return things
}
