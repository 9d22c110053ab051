package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"sync"

	"github.com/deployster-go/deployster/engine"
)

// ahead is a call whose container was made ready while what comes before it
// was still running. Its program runs only when the call is made.
type ahead struct {
	*calling
	begin   func()                                     // lets the program run
	wait    func(context.Context) (engine.Exit, error) // then, for its end; it is killed with the context
	discard func()                                     // instead
	ended   <-chan struct{}                            // closed once there is no container
}

// hold makes the container of the next call ready in the background, as far as
// there is room for it: Parallelism bounds the containers that wait, as it does
// those that run.
func (r *Runner) hold(ctx context.Context, res *resource, next *call) {
	if next == nil || !res.runsOwn(next.invocation) {
		return // another image may have to be pulled first
	}
	if s := res.servedBy(*next); s != nil && !s.unusable() {
		return // a process is there already
	}
	select {
	case r.room <- struct{}{}:
	default:
		return
	}
	leave := sync.OnceFunc(func() { <-r.room })
	input, err := json.Marshal(next.input)
	if err != nil {
		leave()
		return // told when the call is made
	}
	i, err := r.invoke(ctx, res, *next, input)
	if err != nil {
		leave()
		return
	}
	var (
		release, ended = make(chan struct{}), make(chan struct{})
		exit           engine.Exit
		failed         error
	)
	ctx, cancel := context.WithCancel(ctx)
	r.background.Go(func() {
		defer close(ended)
		defer leave()
		defer cancel()
		defer r.caught(&failed, "making ready "+i.action+" of "+i.resource)
		exit, failed = r.container(ctx, res, i, release)
	})
	res.ahead = &ahead{
		calling: i,
		ended:   ended,
		begin: func() {
			close(release)
			leave()
		},
		wait: func(ctx context.Context) (engine.Exit, error) {
			select {
			case <-ended:
			case <-ctx.Done():
				cancel()
				<-ended
			}
			return exit, failed
		},
		discard: func() {
			cancel()
			r.background.Go(func() {
				<-ended
				// It was given nothing and said nothing.
				_ = errors.Join(os.Remove(i.path+inputEnding), os.RemoveAll(i.path+workEnding))
			})
		},
	}
}

// take returns the container that was made ready for a call, nil if there is
// none. One that was made ready for another call is discarded.
func (r *resource) take(c call, input []byte) *ahead {
	a := r.ahead
	if a == nil {
		return nil
	}
	if a.action != c.action || a.attempt != c.attempt || a.answers != c.answers ||
		!reflect.DeepEqual(a.invocation, c.invocation) || !bytes.Equal(a.stdin, input) {
		r.discard()
		return nil
	}
	a.learn = c.learn
	r.ahead = nil
	return a
}

// discard lets go of what was made ready and is not needed. It ends in the
// background.
func (r *resource) discard() {
	r.next = nil
	if r.ahead != nil {
		r.ahead.discard()
		r.ahead = nil
	}
}
