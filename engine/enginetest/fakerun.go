package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/deployster-go/deployster/engine"
)

// killedCode is the exit code of what was killed by SIGKILL.
const killedCode = 128 + int(syscall.SIGKILL)

// Call is what a Program gets: the spec it was run with, and what a process
// would see of it.
type Call struct {
	Spec    engine.Spec
	Path    string   // the entrypoint's executable
	Args    []string // what comes after it
	Env     []string // the image's, then the spec's
	WorkDir string
	User    string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
}

// Host translates a path in the container to this machine's, by way of the
// mounts, and reports whether it is read-only. It fails with fs.ErrNotExist for a
// path that is not below a mount, or is hidden.
func (c Call) Host(name string) (host string, readOnly bool, err error) {
	if !path.IsAbs(name) {
		name = path.Join(c.WorkDir, name)
	}
	name = path.Clean(name)
	longest := -1
	for _, mount := range c.Spec.Mounts {
		target := path.Clean(mount.Target)
		below, ok := strings.CutPrefix(name, target)
		if !ok || below != "" && target != "/" && below[0] != '/' || len(target) <= longest {
			continue
		}
		longest, readOnly = len(target), mount.ReadOnly
		host = filepath.Join(mount.Source, filepath.FromSlash(below))
	}
	for _, hidden := range c.Spec.Hide {
		below, ok := strings.CutPrefix(name, path.Clean(hidden))
		if ok && (below == "" || below[0] == '/') && len(path.Clean(hidden)) > longest {
			longest = -1
			break
		}
	}
	if longest < 0 {
		return "", false, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return host, readOnly, nil
}

// Run calls the image's program.
func (f *Fake) Run(ctx context.Context, spec engine.Spec, streams engine.IO) (engine.Exit, error) {
	record := &FakeRun{Spec: spec}
	f.mu.Lock()
	f.runs = append(f.runs, record)
	f.mu.Unlock()

	exit, err := f.run(ctx, record, streams)
	if err != nil {
		exit, err = engine.Exit{}, fmt.Errorf("run image %q: %w", spec.Image, err)
	}
	f.mu.Lock()
	record.Done, record.Exit, record.Err = true, exit, err
	f.mu.Unlock()
	return exit, err
}

func (f *Fake) run(ctx context.Context, record *FakeRun, streams engine.IO) (engine.Exit, error) {
	spec := record.Spec
	if err := ctx.Err(); err != nil {
		return engine.Exit{}, context.Cause(ctx)
	}
	if f.Fail != nil {
		if err := f.Fail(spec); err != nil {
			return engine.Exit{}, err
		}
	}
	program, call, err := f.prepare(spec)
	if err != nil {
		return engine.Exit{}, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	container := &fakeContainer{ended: make(chan struct{}), kill: func() { fail(errRemoved) }}
	id := f.keep(container, spec.Labels)
	defer f.drop(id)
	if err := held(ctx, spec.Hold); err != nil {
		f.finish(container, engine.Exit{Code: killedCode})
		if errors.Is(err, errRemoved) {
			return engine.Exit{Code: killedCode}, nil
		}
		return engine.Exit{}, err
	}
	spec.Limit(ctx, fail)

	if spec.Whole && streams.Stdin != nil {
		whole, err := readWhole(ctx, streams.Stdin)
		if err != nil {
			f.finish(container, engine.Exit{Code: killedCode})
			if errors.Is(err, errRemoved) {
				return engine.Exit{Code: killedCode}, nil
			}
			return engine.Exit{}, err
		}
		streams.Stdin = bytes.NewReader(whole)
	}
	stdin, feeding := io.Pipe()
	go feed(feeding, streams.Stdin, fail)
	output := &outlet{fail: fail}
	call.Stdin = stdin
	call.Stdout, call.Stderr = output.to(streams.Stdout), output.to(streams.Stderr)
	die := func() {
		_ = stdin.CloseWithError(errors.New("stdin: the container has ended"))
		output.close()
	}
	defer context.AfterFunc(ctx, die)()

	f.begin(container, record)
	code := program(ctx, call)
	f.end()
	die()

	cause := context.Cause(ctx)
	if cause != nil {
		code = killedCode
	}
	exit := engine.Exit{Code: code & 0xff}
	f.finish(container, exit)
	if cause != nil && !errors.Is(cause, errRemoved) {
		return engine.Exit{}, cause
	}
	return exit, nil
}

// readWhole reads an input that may be withheld for ever.
func readWhole(ctx context.Context, stdin io.Reader) ([]byte, error) {
	var whole []byte
	done := make(chan error, 1)
	go func() {
		var err error
		whole, err = io.ReadAll(stdin)
		done <- err
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case err := <-done:
		if err != nil {
			return nil, fmt.Errorf("read what the container gets on stdin: %w", err)
		}
		return whole, nil
	}
}

// errRemoved is why a run ended whose container somebody else removed.
var errRemoved = errors.New("the container was removed")

// held returns once hold is closed, or with the reason why it is not waited
// for any longer. A cancel goes before a release.
func held(ctx context.Context, hold <-chan struct{}) error {
	if hold == nil {
		return nil
	}
	select {
	case <-ctx.Done():
	case <-hold:
	}
	return context.Cause(ctx)
}

// begin notes that the program of a container is called.
func (f *Fake) begin(container *fakeContainer, record *FakeRun) {
	f.mu.Lock()
	defer f.mu.Unlock()
	container.Started, container.Running = true, true
	record.Called = true
	f.running++
	f.maxRunning = max(f.maxRunning, f.running)
}

// end notes that a program has returned.
func (f *Fake) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running--
}

func (f *Fake) drop(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.containers, id)
}

// prepare does what an engine does before it starts a process.
func (f *Fake) prepare(spec engine.Spec) (Program, Call, error) {
	f.mu.Lock()
	_, image, ok := f.find(spec.Image)
	f.mu.Unlock()
	if !ok {
		return nil, Call{}, engine.ErrNoImage
	}
	for _, mount := range spec.Mounts {
		if _, err := os.Stat(mount.Source); err != nil {
			return nil, Call{}, &engine.SpecError{Cause: fmt.Errorf("mount source %s: %w", mount.Source, err)}
		}
	}
	argv := slices.Concat(image.Entrypoint, image.Cmd)
	switch {
	case spec.Entrypoint != "":
		argv = append([]string{spec.Entrypoint}, spec.Args...)
	case spec.Args != nil:
		argv = slices.Concat(image.Entrypoint, spec.Args)
	}
	if image.Program == nil {
		return nil, Call{}, errors.New("the fake's image has no Program")
	}
	if len(argv) == 0 {
		return nil, Call{}, &engine.SpecError{Cause: errors.New("neither entrypoint nor command")}
	}
	if image.Executables != nil && !slices.Contains(image.Executables, argv[0]) {
		return nil, Call{}, &engine.SpecError{Cause: fmt.Errorf("entrypoint %q cannot be executed: %w", argv[0], fs.ErrNotExist)}
	}
	call := Call{
		Spec:    spec,
		Path:    argv[0],
		Args:    argv[1:],
		Env:     merge(image.Env, spec.Env),
		WorkDir: first(spec.WorkDir, image.WorkDir, "/"),
		User:    first(spec.User, image.User, "0:0"),
	}
	return image.Program, call, nil
}

// merge adds variables to an environment; a later value replaces an earlier.
func merge(environment, more []string) []string {
	merged := slices.Clone(environment)
	for _, variable := range more {
		key, _, _ := strings.Cut(variable, "=")
		at := slices.IndexFunc(merged, func(has string) bool { return strings.HasPrefix(has, key+"=") })
		if at < 0 {
			merged = append(merged, variable)
			continue
		}
		merged[at] = variable
	}
	return merged
}

func first(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}

// feed copies stdin to a program, which need not read it.
func feed(to *io.PipeWriter, stdin io.Reader, fail context.CancelCauseFunc) {
	if stdin == nil {
		_ = to.Close()
		return
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := stdin.Read(buffer)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			_ = to.Close()
			return
		case err != nil:
			fail(fmt.Errorf("read what the container gets on stdin: %w", err))
			return
		}
	}
}

// outlet makes a program's writers: one writes at a time, none after the end,
// and a failure ends the run.
type outlet struct {
	fail   context.CancelCauseFunc
	mu     sync.Mutex
	closed bool
}

func (o *outlet) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}

func (o *outlet) to(w io.Writer) io.Writer {
	if w == nil {
		w = io.Discard
	}
	return writerFunc(func(p []byte) (int, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.closed {
			return 0, fs.ErrClosed
		}
		n, err := w.Write(p)
		if err != nil {
			o.closed = true
			o.fail(fmt.Errorf("write the container's output: %w", err))
		}
		return n, err
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
