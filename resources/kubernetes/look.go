package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/resources/internal/kubeapi"
	"github.com/deployster-go/deployster/resources/internal/managedfields"
)

// observation is what a cluster has of a declared object, and what an apply would make of it.
type observation struct {
	declared
	key      key
	resource kubeapi.Resource
	unknown  bool           // its kind, which another declared object defines
	live     map[string]any // nil where there is none
	next     map[string]any // what an apply would make of it; nil where nobody can say yet

	applied     bool     // the resource has applied it
	had         []string // the paths of the fields that it has applied
	differences []managedfields.Difference
	taken       []kubeapi.Conflict // fields that others have taken since, and that an apply takes back
	immutable   []string           // fields that differ and cannot be changed
}

// ending reports whether the object is there and being deleted.
func (o *observation) ending() bool { return isEnding(o.live) }

func isEnding(live map[string]any) bool {
	return kubeapi.Text(live, "metadata", "deletionTimestamp") != ""
}

// stale reports whether an apply changes anything.
func (o *observation) stale() bool {
	return o.live == nil || o.ending() || !o.applied || len(o.differences) > 0 || len(o.immutable) > 0
}

func uidOf(live map[string]any) string { return kubeapi.Text(live, "metadata", "uid") }

// resolve finds what a declared object is to the cluster.
func (m *manager) resolve(ctx context.Context, d declared) (*observation, error) {
	o := &observation{declared: d}
	var err error
	o.resource, err = m.client.Resource(ctx, d.apiVersion, d.kind)
	if errors.Is(err, kubeapi.ErrNoKind) {
		definition := slices.IndexFunc(m.declared, func(other declared) bool { return other.defines(d.apiVersion, d.kind) })
		if definition < 0 {
			return nil, fmt.Errorf("%s: %w: check both for typing errors, or install what defines it first, such as with a resource on which this one depends", d.place(), err)
		}
		o.unknown = true
		o.resource.Namespaced = kubeapi.Text(m.declared[definition].object, "spec", "scope") == "Namespaced"
		err = nil
	}
	if err != nil {
		return nil, err
	}
	o.key = key{groupOf(d.apiVersion), d.kind, "", d.name}
	switch {
	case o.resource.Namespaced:
		o.key.namespace = d.namespace
		for _, otherwise := range []string{m.config.Namespace, m.client.Namespace} {
			if o.key.namespace == "" {
				o.key.namespace = otherwise
			}
		}
	case d.namespace != "":
		return nil, fmt.Errorf("%s: %s %s is in no namespace: remove metadata.namespace", d.place(), d.kind, d.name)
	}
	return o, nil
}

// resolveAll resolves all declared objects, each of which there may be once.
func (m *manager) resolveAll(ctx context.Context) ([]*observation, error) {
	var all []*observation
	first := map[key]*observation{}
	for _, d := range m.declared {
		o, err := m.resolve(ctx, d)
		if err != nil {
			return nil, err
		}
		if other := first[o.key]; other != nil {
			return nil, fmt.Errorf("%s and %s are both %s: remove one of them", other.place(), o.place(), o.key)
		}
		first[o.key] = o
		all = append(all, o)
	}
	return all, nil
}

// ours reports whether a live object belongs to the resource.
func (m *manager) ours(k key, live map[string]any) bool {
	if _, applied := managedfields.Applied(live, m.name); applied {
		return true
	}
	uid := m.memory.of(k).UID
	return uid != "" && uid == uidOf(live)
}

// conflict says that an object belongs to another resource.
type conflict struct{ why string }

func (c *conflict) Error() string { return c.why }

// mayChange refuses a live object that belongs to others.
func (m *manager) mayChange(k key, live map[string]any) error {
	if m.config.Adopt || m.ours(k, live) {
		return nil
	}
	managers := managedfields.Managers(live)
	for _, name := range managers {
		if other, is := strings.CutPrefix(name, managerPrefix); is {
			return &conflict{fmt.Sprintf("%s belongs to another resource (%s): remove it from one of the two, or set \"adopt: true\" to take it over", k, other)}
		}
	}
	by := ""
	if len(managers) > 0 {
		by = " (its field managers are " + strings.Join(managers, ", ") + ")"
	}
	return fmt.Errorf("%s is there already, and this resource has not made it%s: give yours another name, or set \"adopt: true\" to take it over", k, by)
}

// look finds out what a cluster has of an object, without changing anything.
func (m *manager) look(ctx context.Context, o *observation) error {
	if o.unknown {
		return nil
	}
	var err error
	if o.live, err = m.client.Get(ctx, o.resource, o.key.namespace, o.name); err != nil {
		return err
	}
	if o.live != nil {
		if err := m.mayChange(o.key, o.live); err != nil {
			return err
		}
	}
	if o.ending() {
		return nil
	}
	o.next, o.taken, err = m.send(ctx, o, true)
	switch {
	case err == nil:
	case o.live == nil && (kubeapi.IsNotFound(err) || kubeapi.IsEnding(err)) && m.declaresNamespace(o.key.namespace):
		return nil // which is not there yet either, or is made anew
	case o.live == nil && kubeapi.IsNotFound(err):
		return fmt.Errorf("%w: declare the namespace, too, or make it first", err)
	case o.live != nil && len(kubeapi.Invalid(err)) > 0:
		return m.unchangeable(ctx, o, err)
	default:
		return err
	}
	var had managedfields.Set
	had, o.applied = managedfields.Applied(o.live, m.name)
	o.had = had.Paths()
	will, _ := managedfields.Applied(o.next, m.name)
	if o.live != nil {
		o.differences = managedfields.Differences(o.live, o.next, managedfields.Union(had, will))
	}
	return nil
}

func (m *manager) declaresNamespace(name string) bool {
	return slices.ContainsFunc(m.declared, func(d declared) bool { return d.tier() == 0 && d.name == name })
}

// replaceable finds out whether an object that the server refuses as a change would be taken as a
// new one, and whether that is configured. Otherwise the error says why not.
func (m *manager) replaceable(ctx context.Context, o *observation, refused error) error {
	object, err := o.declared.applied(o.key.namespace)
	if err != nil {
		return err
	}
	if err := m.client.Makeable(ctx, o.resource, object); err != nil {
		fields := kubeapi.Invalid(refused)
		if slices.ContainsFunc(kubeapi.Invalid(err), func(field string) bool { return slices.Contains(fields, field) }) {
			return refused // it is no better as a new one
		}
		return errors.Join(refused, err)
	}
	if !m.config.Replace {
		return fmt.Errorf("%s: %s cannot be changed while it exists: leave it as it is, or set \"replace: true\" to have the object deleted and made anew: %w",
			o.key, strings.Join(kubeapi.Invalid(refused), ", "), refused)
	}
	return nil
}

// unchangeable is for an object that can only be what is declared when it is made anew.
func (m *manager) unchangeable(ctx context.Context, o *observation, refused error) error {
	if err := m.replaceable(ctx, o, refused); err != nil {
		return err
	}
	o.immutable = kubeapi.Invalid(refused)
	_, o.applied = managedfields.Applied(o.live, m.name)
	for _, d := range managedfields.Declared(o.live, o.object) {
		if slices.ContainsFunc(o.immutable, func(field string) bool { return within(d.Path(), field) || within(field, d.Path()) }) {
			o.differences = append(o.differences, d)
		}
	}
	return nil
}

// within reports whether a path leads to or below another.
func within(path, other string) bool {
	rest, ok := strings.CutPrefix(path, other)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// send applies an object, or finds out what that would make of it. Fields that others have taken
// from the resource are taken back; fields that were theirs are not, unless that is configured.
func (m *manager) send(ctx context.Context, o *observation, dry bool) (next map[string]any, taken []kubeapi.Conflict, err error) {
	object, err := o.declared.applied(o.key.namespace)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", o.place(), err)
	}
	if metadata, ok := object["metadata"].(map[string]any); ok && o.live != nil {
		metadata["uid"] = uidOf(o.live) // none that took its place meanwhile
	}
	options := kubeapi.ApplyOptions{Manager: m.name, DryRun: dry}
	next, err = m.client.Apply(ctx, o.resource, object, options)
	if taken = kubeapi.Conflicts(err); len(taken) == 0 {
		return next, nil, err
	}
	if err := m.mayTake(o, taken); err != nil {
		return nil, nil, err
	}
	options.Force = true
	next, err = m.client.Apply(ctx, o.resource, object, options)
	return next, taken, err
}

// mayTake refuses to take fields that others owned before the resource did.
func (m *manager) mayTake(o *observation, conflicts []kubeapi.Conflict) error {
	if m.config.ForceConflicts {
		return nil
	}
	known := m.memory.of(o.key)
	if known.UID != uidOf(o.live) {
		known = remembered{}
	}
	var theirs []string
	for _, c := range conflicts {
		if !known.managed(c.Field) {
			theirs = append(theirs, fmt.Sprintf("%s is managed by %s", strings.TrimPrefix(c.Field, "."), c.Manager))
		}
	}
	if len(theirs) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s: remove from the configuration what others are to manage, or set \"force_conflicts: true\" to take it from them", o.key, strings.Join(theirs, ", "))
}
