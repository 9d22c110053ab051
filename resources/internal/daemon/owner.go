package daemon

import (
	"fmt"
	"maps"
	"strings"
)

// The labels on what Deployster made. They differ from those with which the
// runner marks its own containers, so that removing those never touches these.
const (
	LabelManaged   = "deployster.managed"   // name of the resource
	LabelWorkspace = "deployster.workspace" // whose resource it is: names are only unique in a workspace
	LabelSpec      = "deployster.spec"      // hash of what was asked for, where that cannot be read back
	LabelPlainEnv  = "deployster.plain-env" // JSON list of the environment variables whose values are no secrets
)

// Owner is the resource on whose behalf something is done. Several workspaces
// share one engine, hence its name alone does not identify what belongs to it.
type Owner struct {
	Resource  string
	Workspace string
	Adopt     bool // whose the thing was does not matter
}

// Recognise fails for a thing that Deployster did not make, or made for a
// resource of another name. A thing of a workspace elsewhere passes: one
// checkout may look at what another has made.
func (o Owner) Recognise(kind, name string, labels map[string]string) error {
	resource, made := labels[LabelManaged]
	switch {
	case o.Adopt || made && resource == o.Resource:
		return nil
	case !made:
		return fmt.Errorf("%s %q exists and was not made by Deployster; give another name, remove it, or set \"adopt: true\" to take it over", kind, name)
	}
	return foreign(kind, name, labels)
}

// MayChange fails for what Recognise fails for, and for a thing of another
// workspace. It is asked before anything is changed or removed.
func (o Owner) MayChange(kind, name string, labels map[string]string) error {
	if err := o.Recognise(kind, name, labels); err != nil {
		return err
	}
	if o.Adopt || labels[LabelWorkspace] == o.Workspace {
		return nil
	}
	return foreign(kind, name, labels)
}

func foreign(kind, name string, labels map[string]string) error {
	workspace := labels[LabelWorkspace]
	if workspace == "" {
		workspace = "an unknown workspace"
	}
	return fmt.Errorf("%s %q belongs to resource %s of %s; give another name, remove it, or set \"adopt: true\" to take it over",
		kind, name, labels[LabelManaged], workspace)
}

// Labels is labels and the mark of the owner.
func (o Owner) Labels(labels map[string]string) map[string]string {
	all := maps.Clone(labels)
	if all == nil {
		all = map[string]string{}
	}
	all[LabelManaged], all[LabelWorkspace] = o.Resource, o.Workspace
	return all
}

// Unmarked is labels without Deployster's own, an empty map where there are none.
func Unmarked(labels map[string]string) map[string]string {
	others := map[string]string{}
	maps.Copy(others, labels)
	maps.DeleteFunc(others, own)
	return others
}

// SameLabels compares labels, apart from Deployster's own. Of something that
// was adopted only the wanted ones must be there.
func SameLabels(got, want map[string]string) bool {
	_, ours := got[LabelManaged]
	got, want = maps.Clone(got), maps.Clone(want)
	maps.DeleteFunc(want, own)
	maps.DeleteFunc(got, func(key, value string) bool {
		_, wanted := want[key]
		return own(key, value) || !ours && !wanted
	})
	return maps.Equal(got, want)
}

func own(key, _ string) bool { return strings.HasPrefix(key, "deployster.") }
