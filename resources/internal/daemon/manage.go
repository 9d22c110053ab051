package daemon

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/deployster-go/deployster/protocol"
	"github.com/moby/moby/client"
)

// Managed is a resource type with configuration C. An M answers one request,
// and has a connection to the engine while it does. The engine describes the
// things of this type by a T.
type Managed[C, T, M any] struct {
	Kind    Kind[T]
	Schema  []byte
	Replace protocol.ReplaceOrder
	Named   func(C) string             // the name that a configuration gives its thing; "" is that of the resource
	Adopt   func(C) bool               // reports whether the resource takes over what was made for others
	Open    func(Job[C, T]) (M, error) // checks the configuration; asks the engine nothing
	State   func(M, context.Context) (protocol.StateOutput, error)
	Actions map[string]func(M, context.Context) error
}

// Kind is what is known of things of an engine.
type Kind[T any] struct {
	Name string // such as "network"
	Ask  func(ctx context.Context, docker *client.Client, name string) (*T, error)
	Mark func(*T) (name string, labels map[string]string) // by which a thing is recognised
}

// Job is a request, the engine to serve it with, and on whose behalf.
type Job[C, T any] struct {
	Docker  *client.Client
	Request protocol.Request[C]
	Owner   Owner
	kind    Kind[T]
}

// Find looks for a thing by its name, to change it; nil means that there is none.
func (j Job[C, T]) Find(ctx context.Context, name string) (*T, error) {
	thing, err := j.Inspect(ctx, name)
	if err != nil || thing == nil {
		return nil, err
	}
	return thing, j.MayChange(thing)
}

// Inspect is Find without the intention to change it.
func (j Job[C, T]) Inspect(ctx context.Context, name string) (*T, error) {
	thing, err := j.kind.Ask(ctx, j.Docker, name)
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("inspecting %s %s: %w", j.kind.Name, name, err)
	}
	called, labels := j.kind.Mark(thing)
	if called != name { // it was found by the beginning of its id
		return nil, nil
	}
	return thing, j.Owner.Recognise(j.kind.Name, name, labels)
}

// MayChange fails for a thing that is not the owner's to change.
func (j Job[C, T]) MayChange(thing *T) error {
	name, labels := j.kind.Mark(thing)
	return j.Owner.MayChange(j.kind.Name, name, labels)
}

// Type is the resource type on the engine behind a socket. Many requests may be
// answered at once, each by an M of its own.
func (t Managed[C, T, M]) Type(socket string) protocol.Type[C] {
	connect := Connector(socket)
	actions := make(map[string]func(context.Context, protocol.Request[C]) error, len(t.Actions))
	for name, act := range t.Actions {
		actions[name] = func(ctx context.Context, r protocol.Request[C]) error {
			return t.with(connect, r, func(m M) error { return act(m, ctx) })
		}
	}
	return protocol.Type[C]{
		Plugs:        Plugs(),
		ConfigSchema: t.Schema,
		Removable:    true, AcceptsUnknown: true,
		Network:  protocol.NetworkNone, // the engine is behind a file
		Identity: []string{"name"}, Replace: t.Replace,
		State: func(ctx context.Context, r protocol.Request[C]) (answer protocol.StateOutput, err error) {
			if len(r.Unknown) > 0 {
				return t.foresee(ctx, connect, r)
			}
			err = t.with(connect, r, func(m M) error {
				answer, err = t.State(m, ctx)
				return err
			})
			return answer, err
		},
		Actions: actions,
	}
}

// foresee is the state while not all of the configuration is known: of what does not exist it is
// known that it is to be made, and of what exists nothing.
func (t Managed[C, T, M]) foresee(ctx context.Context, connect func() (*client.Client, error), r protocol.Request[C]) (answer protocol.StateOutput, err error) {
	name := cmp.Or(t.Named(r.Config), r.Name)
	if r.Unknown.Has("name") {
		return answer, fmt.Errorf("which %s it is is not known yet", t.Kind.Name)
	}
	docker, err := connect()
	if err != nil {
		return answer, err
	}
	m, err := t.Open(t.Job(docker, r))
	if err != nil {
		return answer, err
	}
	switch thing, err := t.Job(docker, r).Inspect(ctx, name); {
	case err != nil:
		return answer, err
	case thing != nil:
		return answer, fmt.Errorf("%s %s exists, and is not compared before all of its configuration is known", t.Kind.Name, name)
	}
	if answer, err = t.State(m, ctx); err != nil {
		return answer, err
	}
	for _, path := range r.Unknown {
		property, _, _ := strings.Cut(path, ".")
		if _, told := answer.PlannedState[property]; told {
			answer.PlannedState[property] = protocol.Unknown{}
		}
	}
	return answer, nil
}

func (t Managed[C, T, M]) with(connect func() (*client.Client, error), r protocol.Request[C], do func(M) error) error {
	docker, err := connect()
	if err != nil {
		return err
	}
	m, err := t.Open(t.Job(docker, r))
	if err != nil {
		return err
	}
	return do(m)
}

// Job is the job of a request.
func (t Managed[C, T, M]) Job(docker *client.Client, r protocol.Request[C]) Job[C, T] {
	return Job[C, T]{Docker: docker, Request: r, Owner: Owner{Resource: r.Name, Workspace: r.Workspace, Adopt: t.Adopt(r.Config)}, kind: t.Kind}
}
