package invoke

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

// preparedCall is a call whose container was created while what comes before it
// was still running. Its program runs only when the call is made.
type preparedCall struct {
	*pendingCall
	start   func()                                     // lets the program run
	wait    func(context.Context) (engine.Exit, error) // then, for its end; it is killed with the context
	discard func()                                     // instead
	ended   <-chan struct{}                            // closed once there is no container
}

// prepare creates the container of the next call in the background, as far as
// there is a slot for it: Parallelism bounds the containers that wait, as it does
// those that run.
func (v *Invoker) prepare(ctx context.Context, t *Target, next *Call) {
	if next == nil || !t.runsOwnImage(next.Invocation) {
		return // another image may have to be pulled first
	}
	if s := t.serverFor(*next); s != nil && !s.unusable() {
		return // a process is there already
	}
	select {
	case v.slots <- struct{}{}:
	default:
		return
	}
	release := sync.OnceFunc(func() { <-v.slots })
	input, err := json.Marshal(next.Input)
	if err != nil {
		release()
		return // reported when the call is made
	}
	p, err := v.newCall(ctx, t, *next, input)
	if err != nil {
		release()
		return
	}
	var (
		hold, ended = make(chan struct{}), make(chan struct{})
		exit        engine.Exit
		failed      error
	)
	ctx, cancel := context.WithCancel(ctx)
	v.background.Go(func() {
		defer close(ended)
		defer release()
		defer cancel()
		defer v.panics.Catch(&failed, "preparing "+p.Action+" of "+p.resource)
		exit, failed = v.container(ctx, t, p, hold)
	})
	t.prepared = &preparedCall{
		pendingCall: p,
		ended:       ended,
		start: func() {
			close(hold)
			release()
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
			v.background.Go(func() {
				<-ended
				// It was given nothing and printed nothing.
				_ = errors.Join(os.Remove(p.path+inputSuffix), os.RemoveAll(p.path+workSuffix))
			})
		},
	}
}

// takePrepared returns the call that was prepared, nil if there is none. One that
// was prepared for another call is discarded.
func (t *Target) takePrepared(c Call, input []byte) *preparedCall {
	p := t.prepared
	if p == nil {
		return nil
	}
	if p.Action != c.Action || p.Attempt != c.Attempt || p.Answers != c.Answers ||
		!reflect.DeepEqual(p.Invocation, c.Invocation) || !bytes.Equal(p.stdin, input) {
		t.Discard()
		return nil
	}
	p.Learn = c.Learn
	t.prepared = nil
	return p
}

// Discard lets go of what was prepared and is not needed. It ends in the
// background.
func (t *Target) Discard() {
	t.Next = nil
	if t.prepared != nil {
		t.prepared.discard()
		t.prepared = nil
	}
}
