package runner

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
)

// A panic fails what it happened in, as any other failure does, and so the log
// tells of it. Every goroutine of a run has one of these guards.

// caught turns a panic into an error without secrets. It is deferred.
func (r *Runner) caught(err *error, doing string) {
	if p := recover(); p != nil {
		*err = r.panicked(p, doing)
	}
}

// try does something of which a panic is an error like any other.
func (r *Runner) try(doing string, do func() error) (err error) {
	defer r.caught(&err, doing)
	return do()
}

func (r *Runner) panicked(p any, doing string) *crash.Error {
	c := crash.New(p, doing)
	c.Message = r.secrets.mask(c.Message)
	r.crash.CompareAndSwap(nil, c)
	if r.caller.Crashed != nil {
		r.caller.Crashed(c)
	}
	return c
}

// withCrash adds to what came of a run a panic that it does not tell of: nothing
// after one is sound, whatever could go on.
func (r *Runner) withCrash(err error) error {
	if c := r.crash.Load(); c != nil && len(crash.All(err)) == 0 {
		return errors.Join(err, c)
	}
	return err
}

// guarded has a thing done to a resource.
func guarded[T any](ctx context.Context, r *Runner, res *resource, doing string, do func(context.Context, *resource) (T, error)) (got T, err error) {
	defer r.caught(&err, fmt.Sprintf("%s %s (%s)", doing, res.Name, res.Type))
	return do(ctx, res)
}

// engineRun runs a container. What it reads and writes here may fail, but not
// panic: an engine calls it from goroutines of its own.
func (r *Runner) engineRun(ctx context.Context, spec engine.Spec, streams engine.IO) (exit engine.Exit, err error) {
	what := "running " + spec.Labels[LabelResource] + " " + spec.Labels[LabelAction]
	if spec.Labels[LabelKind] == KindServe {
		what = "running a process that serves"
	}
	defer r.caught(&err, what)
	streams.Stdin = guardedReader{r, streams.Stdin, what}
	streams.Stdout = &guardedWriter{r: r, to: streams.Stdout, what: what}
	streams.Stderr = &guardedWriter{r: r, to: streams.Stderr, what: what}
	return r.containers.Engine.Run(ctx, spec, streams)
}

type guardedReader struct {
	r    *Runner
	from io.Reader
	what string
}

func (g guardedReader) Read(p []byte) (n int, err error) {
	defer g.r.caught(&err, g.what)
	return g.from.Read(p)
}

// guardedWriter is given nothing more after a panic: what it writes to may have
// been left halfway.
type guardedWriter struct {
	r      *Runner
	to     io.Writer
	what   string
	broken error
}

func (g *guardedWriter) Write(p []byte) (n int, err error) {
	if g.broken != nil {
		return 0, g.broken
	}
	g.broken = g.r.try(g.what, func() error {
		n, err = g.to.Write(p)
		return nil
	})
	if g.broken != nil {
		return 0, g.broken
	}
	return n, err
}
