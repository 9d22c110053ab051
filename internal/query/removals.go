package query

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Removal is that a revision in progress removes resources from the hosts of a stage, since no step declares
// them any more.
type Removal struct {
	Stage      string   `json:"stage"`
	Revision   string   `json:"revision"`
	Deployment string   `json:"deployment"`
	Before     string   `json:"before"` // the revision that brought them to the hosts
	Resources  []string `json:"resources"`

	LeftOut map[string]LeftOut `json:"left_out,omitempty"` // of the resources, see BoundRemovals
}

// Removals are what revisions in progress are going to remove from hosts.
type Removals struct {
	All []Removal
	// More is how many pairs of revisions of a stage nobody has compared, since so many removals are known.
	More int
}

// Removals returns what revisions in progress are going to remove from hosts at or below a target of a
// pipeline, as their manifests are written, and stops after the first ones unless all are wanted. Revisions that
// carry nothing are left out. With an error it returns what it knows until then.
func (p *Pipelines) Removals(ctx context.Context, t deploylog.Target, kept work.Texts, whole bool) (found Removals, err error) {
	name, _ := record.NameOf(t)
	replacements, err := reconcile.Get(p.Fold, name, func(s *pipeline.State) []pipeline.Replacement { return s.Replacements(t) })
	if err != nil || len(replacements) == 0 {
		return found, err
	}
	releases, err := p.Releases(name)
	if err != nil {
		return found, err
	}
	released := make(map[string]Release, len(releases))
	for _, r := range releases {
		released[r.Deployment] = r
	}
	known, stages := newDeclarations(kept), map[int64][]hostStage{}
	for i, r := range replacements {
		if !whole && len(found.All) == mostReasons {
			found.More = len(replacements) - i
			break
		}
		of := [2]Release{released[r.Before], released[r.Deployment]}
		if of[0].Carries == nil || of[1].Carries == nil {
			continue
		}
		for _, one := range of {
			if _, has := stages[one.Seq]; !has {
				written, err := p.definitionAt(ctx, name, one.Seq)
				if err != nil {
					return found, fmt.Errorf("definition of revision %s: %w", one.Revision, err)
				}
				stages[one.Seq] = hostStages(written)
			}
		}
		former, latter := former(stages[of[0].Seq], stages[of[1].Seq], r.Stage), only(stages[of[1].Seq], r.Beside)
		names, err := known.undeclared([2]map[string]string{of[0].Carries, of[1].Carries}, [2][]hostStage{former, latter})
		if err != nil {
			return found, &UnreadError{name, of[0].Revision, of[1].Revision, err}
		}
		found.add(Removal{Stage: r.Stage, Revision: r.Revision, Deployment: r.Deployment, Before: of[0].Revision, Resources: names})
	}
	return found, nil
}

// UnreadError says that manifests of two revisions cannot be compared. Its words are the same wherever the texts are kept.
type UnreadError struct {
	Pipeline, Before, After string
	Cause                   error
}

func (e *UnreadError) Error() string {
	return fmt.Sprintf("deployster pipeline diff %s %s %s says why", e.Pipeline, e.Before, e.After)
}

func (e *UnreadError) Unwrap() error { return e.Cause }

// add adds a removal, but for resources that are known to be removed already.
func (f *Removals) add(r Removal) {
	for i := range f.All {
		o := &f.All[i]
		if o.Stage != r.Stage || o.Deployment != r.Deployment {
			continue
		}
		r.Resources = slices.DeleteFunc(slices.Clone(r.Resources), func(name string) bool { return slices.Contains(o.Resources, name) })
		if o.Before == r.Before {
			o.Resources = slices.Sorted(slices.Values(slices.Concat(o.Resources, r.Resources)))
			return
		}
	}
	if len(r.Resources) > 0 {
		f.All = append(f.All, r)
	}
}

// declarations are what manifests declare, each of which is read once.
type declarations struct {
	kept  work.Texts
	known map[string]*declared // by digest; nil of what cannot be read as it is written
}

// declared is what a manifest declares.
type declared struct{ names, moved []string }

func newDeclarations(kept work.Texts) declarations { return declarations{kept, map[string]*declared{}} }

// of are those of a manifest; nil of one that cannot be read as it is written.
func (d declarations) of(digest string) (*declared, error) {
	if all, has := d.known[digest]; has || digest == "" {
		return all, nil
	}
	text, err := d.kept.Load(digest)
	if err != nil {
		return nil, err
	}
	var written struct {
		Resources map[string]yaml.Node `yaml:"resources"`
		Moved     []struct {
			From string `yaml:"from"`
		} `yaml:"moved"`
	}
	d.known[digest] = nil
	if yaml.Unmarshal(text, &written) != nil {
		return nil, nil
	}
	all := &declared{names: slices.Sorted(maps.Keys(written.Resources))}
	for _, move := range written.Moved {
		from, _, _ := strings.Cut(move.From, "[")
		all.moved = append(all.moved, from)
	}
	d.known[digest] = all
	return all, nil
}

// undeclared are the resources that steps of stages declare with the files that a revision carries, and steps of
// others do not with those of another one, unless the steps keep them. Nothing is known of that if a
// manifest of the other one cannot be read as it is written.
func (d declarations) undeclared(carries [2]map[string]string, stages [2][]hostStage) (names []string, err error) {
	stays := map[string]bool{}
	for _, step := range steps(stages[1]) {
		all, err := d.of(carries[1][step.Manifest])
		if err != nil || all == nil {
			return nil, wrapped(step.Manifest, err)
		}
		for _, name := range slices.Concat(all.names, all.moved) { // what is moved is there under another name
			stays[name] = true
		}
	}
	for _, step := range steps(stages[0]) {
		if step.Prune != nil && !*step.Prune {
			continue
		}
		all, err := d.of(carries[0][step.Manifest])
		if err != nil {
			return nil, wrapped(step.Manifest, err)
		}
		if all != nil {
			names = append(names, slices.DeleteFunc(slices.Clone(all.names), func(name string) bool { return stays[name] })...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func wrapped(manifest string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", manifest, err)
}

// hostStage is a stage with steps on hosts as a person reads it.
type hostStage struct {
	Name   string `yaml:"name"`
	Deploy struct {
		HostGroups []struct {
			Hosts string `yaml:"hosts"`
		} `yaml:"host_groups"`
		Steps []hostStep `yaml:"steps"`
	} `yaml:"deploy"`
}

type hostStep struct {
	Manifest string `yaml:"manifest"`
	Prune    *bool  `yaml:"prune"`
}

// hostStages are the stages of a definition.
func hostStages(written []byte) []hostStage {
	var d struct {
		Stages []hostStage `yaml:"stages"`
	}
	if yaml.Unmarshal(written, &d) != nil {
		return nil
	}
	return d.Stages
}

func steps(stages []hostStage) (all []hostStep) {
	for _, s := range stages {
		all = append(all, s.Deploy.Steps...)
	}
	return all
}

// only are the stages with these names.
func only(all []hostStage, names []string) []hostStage {
	return slices.DeleteFunc(slices.Clone(all), func(s hostStage) bool { return !slices.Contains(names, s.Name) })
}

// former are a stage as it was, and stages of its hosts that have left the pipeline since: it removes what they
// made.
func former(before, after []hostStage, stage string) []hostStage {
	mine := only(slices.Concat(before, after), []string{stage})
	return slices.DeleteFunc(slices.Clone(before), func(s hostStage) bool {
		return s.Name != stage && (len(only(after, []string{s.Name})) > 0 || !slices.ContainsFunc(mine, s.shares))
	})
}

// shares reports whether another stage selects some hosts in the same way.
func (s hostStage) shares(other hostStage) bool {
	for _, a := range s.Deploy.HostGroups {
		for _, b := range other.Deploy.HostGroups {
			if a.Hosts == b.Hosts {
				return true
			}
		}
	}
	return false
}
