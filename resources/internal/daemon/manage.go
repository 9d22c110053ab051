package daemon

import (
	"context"

	"github.com/deployster-go/deployster/protocol"
	"github.com/moby/moby/client"
)

// Managed is a resource type with configuration C. An M answers one request,
// and has a connection to the engine while it does.
type Managed[C, M any] struct {
	Schema  []byte
	Adopt   func(C) bool            // reports whether the resource takes over what was made for others
	Open    func(Job[C]) (M, error) // checks the configuration; asks the engine nothing
	State   func(M, context.Context) (protocol.StateOutput, error)
	Actions map[string]func(M, context.Context) error
}

// Job is a request, the engine to serve it with, and on whose behalf.
type Job[C any] struct {
	Docker  *client.Client
	Request protocol.Request[C]
	Owner   Owner
}

// Type is the resource type on the engine behind a socket. Many requests may be
// answered at once, each by an M of its own.
func (t Managed[C, M]) Type(socket string) protocol.Type[C] {
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
		Removable:    true,
		State: func(ctx context.Context, r protocol.Request[C]) (answer protocol.StateOutput, err error) {
			err = t.with(connect, r, func(m M) error {
				answer, err = t.State(m, ctx)
				return err
			})
			return answer, err
		},
		Actions: actions,
	}
}

func (t Managed[C, M]) with(connect func() (*client.Client, error), r protocol.Request[C], do func(M) error) error {
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
func (t Managed[C, M]) Job(docker *client.Client, r protocol.Request[C]) Job[C] {
	return Job[C]{Docker: docker, Request: r, Owner: Owner{Resource: r.Name, Workspace: r.Workspace, Adopt: t.Adopt(r.Config)}}
}
