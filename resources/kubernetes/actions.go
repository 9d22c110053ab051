package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/kubeapi"
	"github.com/deployster-go/deployster/resources/internal/readiness"
)

// apply applies all objects, in order. One that is as declared already stays as it is. What each
// has become is kept, also where a later one fails: it is ours from then on.
func (m *manager) apply(ctx context.Context) (err error) {
	m.memory.Server = m.client.Server
	defer func() {
		kept, unfit := m.memory.bounded()
		if unfit == nil {
			unfit = m.request.Keep(kept)
		}
		err = errors.Join(err, unfit)
	}()
	var definitions []*observation
	for _, d := range m.declared {
		if d.tier() > 1 && len(definitions) > 0 {
			if err := m.ready(ctx, definitions); err != nil {
				return err
			}
			definitions = nil
		}
		o, err := m.known(ctx, d)
		if err != nil {
			return err
		}
		if err := m.applyOne(ctx, o); err != nil {
			return err
		}
		m.memory.put(m.seen(o))
		if d.tier() == 1 {
			definitions = append(definitions, o)
		}
	}
	return nil
}

// known waits until the server serves a kind that was defined just now.
func (m *manager) known(ctx context.Context, d declared) (o *observation, err error) {
	err = m.until(ctx, fmt.Sprintf("the cluster serves %s of %s", d.kind, d.apiVersion), func(ctx context.Context) (string, error) {
		if o, err = m.resolve(ctx, d); err == nil && o.unknown {
			return "it does not yet", nil
		}
		return "", err
	})
	return o, err
}

func (m *manager) applyOne(ctx context.Context, o *observation) error {
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
		if err := m.gone(ctx, o.key, o.resource, uidOf(o.live)); err != nil {
			return err
		}
		o.live = nil
	}
	before := kubeapi.Text(o.live, "metadata", "resourceVersion")
	next, _, err := m.send(ctx, o, false)
	if o.live != nil && len(kubeapi.Invalid(err)) > 0 {
		if err := m.replaceable(ctx, o, err); err != nil {
			return err
		}
		if err := m.delete(ctx, o.key, o.resource, o.live); err != nil {
			return err
		}
		o.live = nil
		next, _, err = m.send(ctx, o, false)
	}
	switch {
	case err != nil:
		return err
	case o.live == nil:
		m.request.Sayf("created %s", o.key)
	case before != kubeapi.Text(next, "metadata", "resourceVersion"):
		m.request.Sayf("changed %s", o.key)
	}
	o.live, o.next = next, next
	return nil
}

// wait waits until all objects are ready.
func (m *manager) wait(ctx context.Context) error {
	all, err := m.resolveAll(ctx)
	if err != nil {
		return err
	}
	return m.ready(ctx, all)
}

func (m *manager) ready(ctx context.Context, all []*observation) error {
	open := slices.Clone(all)
	return m.until(ctx, "all is ready", func(ctx context.Context) (string, error) {
		var why []string
		for _, o := range slices.Clone(open) {
			live, err := m.client.Get(ctx, o.resource, o.key.namespace, o.name)
			if err != nil {
				return "", err
			}
			if live == nil {
				return "", fmt.Errorf("%s was deleted while it was waited for: apply again", o.key)
			}
			verdict := readiness.Of(live)
			switch {
			case verdict.Failed:
				return "", fmt.Errorf("%s will not be ready: %s", o.key, verdict.Why)
			case !verdict.Ready:
				why = append(why, fmt.Sprintf("%s: %s", o.key, verdict.Why))
				continue
			}
			open = slices.DeleteFunc(open, func(other *observation) bool { return other == o })
			if readiness.Matters(o.apiVersion, o.kind) {
				m.request.Sayf("%s is ready", o.key)
			}
		}
		return several(why), nil
	})
}

// prune removes what is no longer declared.
func (m *manager) prune(ctx context.Context) error {
	all, err := m.resolveAll(ctx)
	if err != nil {
		return err
	}
	for _, o := range all {
		if o.unknown {
			continue
		}
		if o.live, err = m.client.Get(ctx, o.resource, o.key.namespace, o.name); err != nil {
			return err
		}
	}
	left, err := m.leftovers(ctx, all)
	if err != nil {
		return err
	}
	if err := needed(all, left); err != nil {
		return err
	}
	return m.removeAll(ctx, left)
}

// absent finds out what there is to remove.
func (m *manager) absent(ctx context.Context) (protocol.StateOutput, error) {
	all, err := m.made(ctx)
	switch {
	case err != nil:
		return protocol.StateOutput{}, err
	case len(all) == 0:
		return protocol.AnswerValid(map[string]any{})
	}
	slices.Reverse(all)
	return protocol.AnswerStale(map[string]any{"present": names(all)}, protocol.Do("remove", fate(all, "remove ")))
}

func (m *manager) remove(ctx context.Context) error {
	all, err := m.made(ctx)
	if err != nil {
		return err
	}
	return m.removeAll(ctx, all)
}

// made are all objects of the resource that are there, declared or remembered, in the order in
// which they were applied.
func (m *manager) made(ctx context.Context) ([]leftover, error) {
	if err := m.sameCluster(ctx); err != nil {
		return nil, err
	}
	var all []leftover
	var declared []*observation
	for _, d := range m.declared {
		o, err := m.resolve(ctx, d)
		if errors.Is(err, kubeapi.ErrNoKind) {
			continue // and so there is no object of the kind
		}
		if err != nil {
			return nil, err
		}
		if declared = append(declared, o); o.unknown {
			continue
		}
		if o.live, err = m.client.Get(ctx, o.resource, o.key.namespace, o.name); err != nil {
			return nil, err
		}
		switch {
		case o.live == nil:
			continue
		case !m.ours(o.key, o.live):
			m.request.Warnf("%s is left as it is: this resource has not made it", o.key)
			continue
		}
		r := remembered{APIVersion: o.apiVersion, Kind: o.kind, Namespace: o.key.namespace, Name: o.name, UID: uidOf(o.live)}
		l := leftover{remembered: r, resource: o.resource, live: o.live, taken: m.takenBy(o.live)}
		if l.taken != "" && m.forgotten(l) {
			continue
		}
		all = append(all, l)
	}
	left, err := m.leftovers(ctx, declared)
	return append(all, left...), err
}

// removeAll removes objects, the last one first; definitions of kinds after all others, and
// namespaces at the end. Those that another resource has taken over it lets go of.
func (m *manager) removeAll(ctx context.Context, all []leftover) error {
	slices.SortStableFunc(all, func(a, b leftover) int { return tierOf(a.APIVersion, a.Kind) - tierOf(b.APIVersion, b.Kind) })
	for _, l := range slices.Backward(all) {
		if l.taken != "" {
			if err := m.release(ctx, l); err != nil {
				return err
			}
			continue
		}
		if err := m.delete(ctx, l.key(), l.resource, l.live); err != nil {
			return err
		}
	}
	return nil
}

// delete deletes an object, and waits until it is gone with all that depends on it.
func (m *manager) delete(ctx context.Context, k key, resource kubeapi.Resource, live map[string]any) error {
	if !isEnding(live) {
		if err := m.client.Delete(ctx, resource, k.namespace, k.name, uidOf(live)); err != nil {
			return err
		}
	}
	if err := m.gone(ctx, k, resource, uidOf(live)); err != nil {
		return err
	}
	m.request.Sayf("removed %s", k)
	return nil
}

func (m *manager) gone(ctx context.Context, k key, resource kubeapi.Resource, uid string) error {
	return m.until(ctx, fmt.Sprintf("%s is gone", k), func(ctx context.Context) (string, error) {
		live, err := m.client.Get(ctx, resource, k.namespace, k.name)
		if err != nil || uidOf(live) != uid {
			return "", err
		}
		finalizers, _ := kubeapi.At(live, "metadata", "finalizers").([]any)
		var waiting []string
		for _, f := range finalizers {
			waiting = append(waiting, fmt.Sprint(f))
		}
		if len(waiting) == 0 {
			return "it is still there", nil
		}
		return "it has the finalizers " + strings.Join(waiting, ", ") + ", which their controllers are to remove", nil
	})
}

// The pauses between two questions while something is waited for.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 2 * time.Second
)

// until asks again and again until there is nothing left to wait for, at most for as long as is
// configured, which ends a question that is not answered, too. check says why it is not so yet,
// or fails.
func (m *manager) until(ctx context.Context, what string, check func(context.Context) (why string, err error)) error {
	bound := m.config.Wait.bound()
	within, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	why := "the cluster does not answer"
	for pause := firstPause; ; pause = min(pause*3/2, maxPause) {
		says, err := check(within)
		switch {
		case err == nil && says == "":
			return nil
		case err != nil && within.Err() != nil: // it was cut short, and says nothing about the cluster
		case err == nil:
			why = says
		case kubeapi.Passing(err):
			why = err.Error()
		default:
			return err
		}
		again := time.NewTimer(pause)
		select {
		case <-within.Done():
			again.Stop()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("waited for %s until %s: %s; see `kubectl describe` for more, or wait longer with \"wait.timeout\"", bound, what, why)
		case <-again.C:
		}
	}
}
