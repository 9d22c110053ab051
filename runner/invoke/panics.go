package invoke

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
)

// Panics makes a panic fail what it happened in, as any other failure does, so that
// the log records it. Every goroutine of a run has one of these guards.
type Panics struct {
	secrets *Secrets
	report  func(*crash.Error)
	first   atomic.Pointer[crash.Error]
}

// NewPanics returns guards that report each panic at once, with secrets masked.
func NewPanics(secrets *Secrets, report func(*crash.Error)) *Panics {
	return &Panics{secrets: secrets, report: report}
}

// Catch turns a panic into an error. It is deferred.
func (p *Panics) Catch(err *error, doing string) {
	if r := recover(); r != nil {
		*err = p.Recovered(r, doing)
	}
}

// Try runs a function of which a panic is an error like any other.
func (p *Panics) Try(doing string, run func() error) (err error) {
	defer p.Catch(&err, doing)
	return run()
}

// Recovered is the error of a panic that was recovered.
func (p *Panics) Recovered(r any, doing string) *crash.Error {
	c := crash.New(r, doing)
	c.Message = p.secrets.Mask(c.Message)
	p.first.CompareAndSwap(nil, c)
	p.report(c)
	return c
}

// Join adds to the error of a run a panic that it does not mention: nothing after
// one is sound, whatever could go on.
func (p *Panics) Join(err error) error {
	if c := p.first.Load(); c != nil && len(crash.All(err)) == 0 {
		return errors.Join(err, c)
	}
	return err
}

// runContainer runs a container. What it reads and writes here may fail, but not
// panic: an engine calls it from goroutines of its own.
func (v *Invoker) runContainer(ctx context.Context, spec engine.Spec, streams engine.IO) (exit engine.Exit, err error) {
	what := "running " + spec.Labels[LabelResource] + " " + spec.Labels[LabelAction]
	if spec.Labels[LabelKind] == KindServe {
		what = "running a process that serves"
	}
	defer v.panics.Catch(&err, what)
	streams.Stdin = guardedReader{v.panics, streams.Stdin, what}
	streams.Stdout = &guardedWriter{panics: v.panics, to: streams.Stdout, what: what}
	streams.Stderr = &guardedWriter{panics: v.panics, to: streams.Stderr, what: what}
	if v.containers.Traced != nil {
		return v.containers.Traced.Run(ctx, spec, streams)
	}
	return v.containers.Engine.Run(ctx, spec, streams)
}

type guardedReader struct {
	panics *Panics
	from   io.Reader
	what   string
}

func (g guardedReader) Read(p []byte) (n int, err error) {
	defer g.panics.Catch(&err, g.what)
	return g.from.Read(p)
}

// guardedWriter is given nothing more after a panic: what it writes to may have
// been left halfway.
type guardedWriter struct {
	panics *Panics
	to     io.Writer
	what   string
	broken error
}

func (g *guardedWriter) Write(p []byte) (n int, err error) {
	if g.broken != nil {
		return 0, g.broken
	}
	g.broken = g.panics.Try(g.what, func() error {
		n, err = g.to.Write(p)
		return nil
	})
	if g.broken != nil {
		return 0, g.broken
	}
	return n, err
}
