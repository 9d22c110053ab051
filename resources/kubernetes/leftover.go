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

// leftover is an object that the resource has made and no longer declares.
type leftover struct {
	remembered
	resource kubeapi.Resource
	live     map[string]any
	taken    string // by this other resource, to which it is left; "" is nobody
}

func names(left []leftover) []string {
	var all []string
	for _, l := range left {
		all = append(all, l.key().String())
	}
	return all
}

// fate says what becomes of leftovers. what names those that are removed.
func fate(left []leftover, what string) string {
	var removed, released []string
	for _, l := range left {
		if l.taken == "" {
			removed = append(removed, l.key().String())
		} else {
			released = append(released, fmt.Sprintf("%s (which %s has applied, too)", l.key(), l.taken))
		}
	}
	var all []string
	if len(removed) > 0 {
		all = append(all, what+several(removed))
	}
	if len(released) > 0 {
		all = append(all, "let go of "+several(released))
	}
	return strings.Join(all, "; ")
}

// leftovers finds the objects that are remembered, still there and not declared.
func (m *manager) leftovers(ctx context.Context, all []*observation) ([]leftover, error) {
	var left []leftover
	for _, r := range m.memory.Objects {
		if slices.ContainsFunc(all, func(o *observation) bool { return o.key == r.key() }) {
			continue
		}
		l := leftover{remembered: r}
		var err error
		if l.resource, l.live, err = m.find(ctx, r); err != nil {
			return nil, err
		}
		if l.live == nil || !m.ours(r.key(), l.live) {
			continue
		}
		if l.taken = m.takenBy(l.live); l.taken != "" && m.forgotten(l) {
			continue
		}
		l.UID = uidOf(l.live)
		if slices.ContainsFunc(all, func(o *observation) bool { return o.live != nil && uidOf(o.live) == l.UID }) {
			continue // one that is declared, which another group has, too
		}
		left = append(left, l)
	}
	return left, nil
}

// takenBy is another resource that has applied an object, too; "" is none.
func (m *manager) takenBy(live map[string]any) string {
	for _, name := range managedfields.Appliers(live) {
		if other, is := strings.CutPrefix(name, managerPrefix); is && name != m.name {
			return other
		}
	}
	return ""
}

// forgotten reports whether an object that another resource has taken over has nothing of this one
// any more. People are told that it stays.
func (m *manager) forgotten(l leftover) bool {
	if _, applied := managedfields.Applied(l.live, m.name); applied {
		return false
	}
	m.leave(l)
	return true
}

func (m *manager) leave(l leftover) {
	m.request.Warnf("%s is left as it is, and forgotten: another resource (%s) has applied it, too; where that one is gone, remove it with `kubectl delete`", l.key(), l.taken)
}

// maxReleases is how often an object is let go of that others change all the time.
const maxReleases = 10

// release has an object be that of the resource alone that has taken it over. What it is stays as
// it is, and whoever destroys the other resource removes it.
func (m *manager) release(ctx context.Context, l leftover) error {
	k := l.key()
	for attempt := 1; ; attempt++ {
		entries, ok := managedfields.Without(l.live, m.name)
		if !ok || uidOf(l.live) != l.UID || m.takenBy(l.live) == "" { // somebody else has seen to it, or the next look decides anew
			return nil
		}
		err := m.client.SetManagers(ctx, l.resource, k.namespace, k.name, kubeapi.Text(l.live, "metadata", "resourceVersion"), entries)
		switch {
		case err == nil:
			m.leave(l)
			return nil
		case kubeapi.IsNotFound(err):
			return nil
		case !kubeapi.IsConflict(err) || attempt == maxReleases:
			return err
		}
		if l.live, err = m.client.Get(ctx, l.resource, k.namespace, k.name); err != nil {
			return err
		}
	}
}

// needed refuses to remove a namespace or the definition of a kind with which declared objects
// would go.
func needed(all []*observation, left []leftover) error {
	for _, l := range left {
		for _, o := range all {
			if l.taken != "" || !l.holds(o.key) {
				continue
			}
			return fmt.Errorf("%s is no longer declared, and %s (%s), which is, would go with it: declare it again, here or in another resource with \"adopt: true\", or remove what needs it as well",
				l.key(), o.key, o.place())
		}
	}
	return nil
}

// holds reports whether an object goes with a leftover.
func (l leftover) holds(k key) bool {
	switch tierOf(l.APIVersion, l.Kind) {
	case 0:
		return k.namespace == l.Name
	case 1:
		return kubeapi.Text(l.live, "spec", "group") == k.group && kubeapi.Text(l.live, "spec", "names", "kind") == k.kind
	}
	return false
}

// find is the object that has the name of one that is remembered; nil where there is none.
func (m *manager) find(ctx context.Context, r remembered) (kubeapi.Resource, map[string]any, error) {
	resource, err := m.client.AnyVersion(ctx, r.APIVersion, r.Kind)
	if errors.Is(err, kubeapi.ErrNoKind) {
		return resource, nil, nil
	}
	if err != nil {
		return resource, nil, err
	}
	live, err := m.client.Get(ctx, resource, r.Namespace, r.Name)
	return resource, live, err
}

// sameCluster refuses a cluster that has nothing of what the resource made in another one: it
// would be left there, and forgotten.
func (m *manager) sameCluster(ctx context.Context) error {
	if m.memory.Server == "" || m.memory.Server == m.client.Server {
		return nil
	}
	known := false
	for _, r := range m.memory.Objects {
		if r.UID == "" {
			continue
		}
		known = true
		if _, live, err := m.find(ctx, r); err != nil || uidOf(live) == r.UID {
			return err // the same cluster, at another address
		}
	}
	if !known {
		return nil
	}
	return fmt.Errorf("what this resource has made is in the cluster at %s, and that at %s has nothing of it: destroy it there first, or have it forgotten with `deployster state forget %s`",
		m.memory.Server, m.client.Server, m.request.Name)
}
