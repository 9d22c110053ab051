package kubernetes

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/kubeapi"
	"github.com/deployster-go/deployster/resources/internal/managedfields"
	"github.com/deployster-go/deployster/resources/internal/readiness"
)

// present compares what there is with what is declared.
func (m *manager) present(ctx context.Context) (protocol.StateOutput, error) {
	if err := m.sameCluster(ctx); err != nil {
		return protocol.StateOutput{}, err
	}
	all, err := m.resolveAll(ctx)
	if err != nil {
		return protocol.StateOutput{}, err
	}
	for _, o := range all {
		err := m.look(ctx, o)
		var theirs *conflict
		if errors.As(err, &theirs) {
			identities, failed := m.identities(ctx, all)
			if failed != nil || len(identities) == 0 {
				return protocol.StateOutput{}, cmp.Or(failed, err)
			}
			return protocol.AnswerConflict(theirs.why, identities...), nil
		}
		if err != nil {
			return protocol.StateOutput{}, err
		}
	}
	left, err := m.leftovers(ctx, all)
	if err != nil {
		return protocol.StateOutput{}, err
	}
	if err := needed(all, left); err != nil {
		return protocol.StateOutput{}, err
	}
	keep, err := m.keep(all, left)
	if err != nil {
		return protocol.StateOutput{}, err
	}
	if err := m.request.Keep(keep); err != nil {
		return protocol.StateOutput{}, err
	}
	var out protocol.StateOutput
	if actions := m.actions(all, left); len(actions) == 0 {
		out, err = protocol.AnswerValid(m.describe(all, func(o *observation) any { return shown(o.live) }))
	} else {
		out, err = protocol.AnswerStale(m.staleState(all, left), actions...)
	}
	if err == nil {
		out.Identities, err = m.identities(ctx, all)
	}
	return out, err
}

// systemNamespace is there as long as its cluster, so that its uid identifies that, whatever its address and
// whoever asks.
const systemNamespace = "kube-system"

// identities identify the declared objects, whatever version they are written in. Without the right to read the
// system namespace only those that are there have one: their uid.
func (m *manager) identities(ctx context.Context, all []*observation) (identities []map[string]any, err error) {
	cluster, err := m.client.Get(ctx, kubeapi.Resource{APIVersion: "v1", Name: "namespaces"}, "", systemNamespace)
	if err != nil && !kubeapi.IsForbidden(err) {
		return nil, err
	}
	of := uidOf(cluster)
	for _, o := range all {
		switch {
		case of != "":
			identities = append(identities, map[string]any{"cluster": of, "group": o.key.group, "kind": o.key.kind, "namespace": o.key.namespace, "name": o.key.name})
		case uidOf(o.live) != "":
			identities = append(identities, map[string]any{"uid": uidOf(o.live)})
		}
	}
	return identities, nil
}

// actions are what it takes until all is as declared.
func (m *manager) actions(all []*observation, left []leftover) []protocol.Action {
	var actions []protocol.Action
	var applied, waited []string
	for _, o := range all {
		if o.stale() {
			applied = append(applied, o.todo())
			if readiness.Matters(o.apiVersion, o.kind) {
				waited = append(waited, o.key.String())
			}
			continue
		}
		if verdict := readiness.Of(o.live); !verdict.Ready {
			waited = append(waited, fmt.Sprintf("%s (%s)", o.key, verdict.Why))
		}
	}
	if len(applied) > 0 {
		apply := protocol.Do("apply", "apply "+several(applied))
		apply.Destroys = slices.ContainsFunc(all, func(o *observation) bool { return len(o.immutable) > 0 })
		actions = append(actions, apply)
	}
	if len(left) > 0 {
		prune := protocol.Do("prune", fate(left, "remove what is no longer declared: "))
		prune.Destroys = slices.ContainsFunc(left, func(l leftover) bool { return l.taken == "" })
		actions = append(actions, prune)
	}
	if m.config.Wait.ready() && len(waited) > 0 {
		actions = append(actions, protocol.Do("wait", fmt.Sprintf("wait at most %s until ready: %s", m.config.Wait.bound(), several(waited))))
	}
	return actions
}

// todo names an object, and what of it an apply changes.
func (o *observation) todo() string {
	switch {
	case o.live == nil:
		return o.key.String() + " (new)"
	case o.ending():
		return o.key.String() + " (once the one that is being deleted is gone)"
	case len(o.immutable) > 0:
		return fmt.Sprintf("%s (deleted and made anew: %s cannot be changed)", o.key, strings.Join(o.immutable, ", "))
	case len(o.differences) == 0:
		return o.key.String() + " (taken over)"
	}
	var changes []string
	for _, d := range o.differences {
		changes = append(changes, o.written(d)+o.why(d))
	}
	return fmt.Sprintf("%s (%s)", o.key, several(changes))
}

// written is where the configuration has a field that differs.
func (o *observation) written(d managedfields.Difference) string {
	if name, isData := strings.CutPrefix(d.Path(), "data."); isData && o.kind == "Secret" && kubeapi.At(o.object, "stringData", name) != nil {
		return "stringData." + name
	}
	return d.Path()
}

// why says what is not seen in a difference: who made it, or that nobody declares the field.
func (o *observation) why(d managedfields.Difference) string {
	for _, c := range o.taken {
		if strings.TrimPrefix(c.Field, ".") == d.Path() {
			if slices.Contains(o.had, c.Field) { // else who changed it would own it alone
				return ", owned also by " + c.Manager
			}
			return ", changed by " + c.Manager
		}
	}
	if !d.WillBe {
		return ", no longer declared"
	}
	return ""
}

// most is how much one text for people lists.
const most = 12

func several(all []string) string {
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}

// staleState is what there is, in the words of the configuration; nil is nothing.
func (m *manager) staleState(all []*observation, left []leftover) any {
	if len(left) == 0 && !slices.ContainsFunc(all, func(o *observation) bool { return o.live != nil }) {
		return nil
	}
	state := m.describe(all, func(o *observation) any {
		if o.live == nil {
			return map[string]any{}
		}
		return o.undone()
	})
	for name, value := range m.config.given { // which is no difference
		if _, isObject := state[name]; !isObject {
			state[name] = value
		}
	}
	if len(left) > 0 {
		state["no_longer_declared"] = names(left)
	}
	return state
}

// undone is the object as it is declared, with the fields that differ as they are.
func (o *observation) undone() map[string]any {
	encoded := maps.Clone(o.object)
	if o.kind != "Secret" || encodeData(encoded) != nil {
		return managedfields.Undo(o.object, o.differences)
	}
	undone := managedfields.Undo(encoded, o.differences)
	plain, _ := o.object["stringData"].(map[string]any)
	if plain == nil {
		return undone
	}
	data, _ := undone["data"].(map[string]any)
	texts := map[string]any{}
	for name := range plain {
		if text, there := data[name].(string); there {
			if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
				text = string(decoded)
			}
			texts[name] = text
			delete(data, name)
		}
	}
	if undone["stringData"] = texts; len(data) == 0 {
		delete(undone, "data")
	}
	return undone
}

// describe puts something of each object where the configuration has it.
func (m *manager) describe(all []*observation, of func(*observation) any) map[string]any {
	state := map[string]any{}
	lists := map[string][]any{"objects": make([]any, len(m.config.Objects)), "secrets": make([]any, len(m.config.Secrets))}
	for _, o := range all {
		if list := lists[o.property]; list != nil {
			list[o.index] = of(o)
		} else {
			state[o.property] = of(o)
		}
	}
	for property, list := range lists {
		if len(list) > 0 {
			state[property] = list
		}
	}
	return state
}

// maxShown is how large an object in a state may be. A larger one is shown without its
// specification and data.
const maxShown = 64 << 10

// lastApplied is the annotation in which kubectl writes an object as a whole, a Secret with its data.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// shown is a live object for other resources: without what only the server needs, and without
// what changes by itself while all is well. Annotations of a Secret may hold what it holds, so
// they have no values.
func shown(live map[string]any) map[string]any {
	object := maps.Clone(live)
	if metadata, ok := live["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		for _, name := range []string{"managedFields", "resourceVersion", "generation", "creationTimestamp"} {
			delete(metadata, name)
		}
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			annotations = maps.Clone(annotations)
			delete(annotations, lastApplied)
			for name := range annotations {
				if live["kind"] == "Secret" {
					annotations[name] = ""
				}
			}
			metadata["annotations"] = annotations
		}
		object["metadata"] = metadata
	}
	if status, ok := live["status"].(map[string]any); ok {
		status = maps.Clone(status)
		delete(status, "conditions")
		delete(status, "observedGeneration")
		object["status"] = status
	}
	if text, err := json.Marshal(object); err == nil && len(text) <= maxShown {
		return object
	}
	return map[string]any{
		"apiVersion": live["apiVersion"], "kind": live["kind"],
		"metadata": map[string]any{"name": kubeapi.Text(live, "metadata", "name"), "namespace": kubeapi.Text(live, "metadata", "namespace"), "uid": uidOf(live)},
	}
}

// seen is what is to be remembered of a declared object, as it is there.
func (m *manager) seen(o *observation) remembered {
	r := remembered{APIVersion: o.apiVersion, Kind: o.kind, Namespace: o.key.namespace, Name: o.name}
	if o.live == nil || !m.ours(o.key, o.live) {
		return r
	}
	r.UID = uidOf(o.live)
	before := m.memory.of(o.key)
	if before.UID != r.UID {
		before = remembered{}
	}
	managed, _ := managedfields.Applied(o.live, m.name)
	declared, _ := managedfields.Applied(o.next, m.name)
	r.Fields = fieldsOf(before, managed.Paths(), declared.Paths())
	return r
}

// keep is what is to be remembered, before anything is made: so what an interrupted apply made is
// found, too.
func (m *manager) keep(all []*observation, left []leftover) (memory, error) {
	next := memory{Server: m.client.Server}
	for _, o := range all {
		next.Objects = append(next.Objects, m.seen(o))
	}
	for _, l := range left {
		next.Objects = append(next.Objects, l.remembered)
	}
	return next.bounded()
}
