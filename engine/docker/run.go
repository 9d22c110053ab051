package docker

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/engine"
)

// Run runs one container to its end and removes it:
//
//	create → attach → wait (for the next exit) → start → copy stdin, close it
//	→ copy output until it ends → exit → remove
//
// Streams and wait are in place before the process starts, so a container that
// ends at once loses nothing. The attached connection stays open until the
// container has ended, and its closing frees a stdin copy that a container did
// not care to read. A Read of streams.Stdin may still be outstanding when Run
// returns; what it yields is dropped.
//
// Docker keeps no log of the container: its output is the caller's alone.
//
// A container that somebody else removes while it runs ended by that: its exit
// is returned like any other.
func (e *Engine) Run(ctx context.Context, spec engine.Spec, streams engine.IO) (engine.Exit, error) {
	if spec.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, spec.Timeout, fmt.Errorf("%w after %s", engine.ErrTimeout, spec.Timeout))
		defer cancel()
	}
	exit, err := e.run(ctx, spec, streams)
	if err == nil {
		return exit, nil
	}
	if ctx.Err() != nil {
		// Whatever was interrupted reports it in its own words.
		err = context.Cause(ctx)
	}
	return engine.Exit{}, fmt.Errorf("run image %q: %w", spec.Image, err)
}

func (e *Engine) run(ctx context.Context, spec engine.Spec, streams engine.IO) (engine.Exit, error) {
	id, err := e.create(ctx, spec, streams.Stdin != nil)
	if err != nil {
		return engine.Exit{}, err
	}
	defer e.discard(ctx, id)

	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	attached, err := e.client.ContainerAttach(ctx, id, client.ContainerAttachOptions{
		Stream: true,
		Stdin:  streams.Stdin != nil,
		Stdout: true,
		Stderr: true,
	})
	if err != nil {
		return engine.Exit{}, e.wrap("attach to the container", err)
	}
	defer attached.Close()
	// Closing is what ends reads and writes of the connection on a cancel.
	defer context.AfterFunc(ctx, attached.Close)()

	exited := e.await(ctx, id, container.WaitConditionNextExit)
	if _, err := e.client.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
		return engine.Exit{}, e.runError("start the container", spec, err)
	}
	if streams.Stdin != nil {
		go feed(&attached.HijackedResponse, streams.Stdin, fail)
	}
	output := outlet{fail: fail}
	_, err = stdcopy.StdCopy(output.to("stdout", streams.Stdout), output.to("stderr", streams.Stderr), attached.Reader)
	if ctx.Err() != nil {
		return engine.Exit{}, context.Cause(ctx)
	}
	if err != nil {
		return engine.Exit{}, fmt.Errorf("read the container's output: %w", err)
	}
	select {
	case <-ctx.Done():
		return engine.Exit{}, context.Cause(ctx)
	case end := <-exited:
		if end.err != nil {
			return engine.Exit{}, e.wrap("wait for the container", end.err)
		}
		return e.exit(ctx, id, end.code)
	}
}

// create makes the container and returns its id. It is not cut short by a
// cancel, see grace.
func (e *Engine) create(ctx context.Context, spec engine.Spec, stdin bool) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	longer, cancel := grace(ctx)
	defer cancel()
	config, err := e.configuration(longer, spec, stdin)
	if err != nil {
		return "", err
	}
	created, err := e.client.ContainerCreate(longer, client.ContainerCreateOptions{
		Config: config,
		HostConfig: &container.HostConfig{
			Mounts:      mounts(spec.Mounts),
			NetworkMode: container.NetworkMode(spec.Network),
			// Output of any size must not fill the engine's disk.
			LogConfig: container.LogConfig{Type: "none"},
		},
	})
	if err != nil {
		return "", e.runError("create the container", spec, err)
	}
	for _, warning := range created.Warnings {
		e.log.WarnContext(ctx, "docker warns about a container", "image", spec.Image, "warning", warning)
	}
	return created.ID, nil
}

func (e *Engine) configuration(ctx context.Context, spec engine.Spec, stdin bool) (*container.Config, error) {
	config := &container.Config{
		Image:        spec.Image,
		Cmd:          spec.Args,
		Env:          spec.Env,
		WorkingDir:   spec.WorkDir,
		User:         spec.User,
		Labels:       spec.Labels,
		OpenStdin:    stdin,
		StdinOnce:    stdin, // without it, closing stdin ends the attachment
		AttachStdin:  stdin,
		AttachStdout: true,
		AttachStderr: true,
	}
	if spec.Entrypoint != "" {
		config.Entrypoint = []string{spec.Entrypoint}
		return config, nil
	}
	if spec.Args == nil || len(spec.Args) > 0 {
		return config, nil
	}
	// Docker takes an empty command for none given, and falls back on the
	// image's unless the entrypoint is given.
	image, err := e.client.ImageInspect(ctx, spec.Image)
	if err != nil {
		return nil, e.runError("look at the image", spec, err)
	}
	if image.Config != nil {
		config.Entrypoint = image.Config.Entrypoint
	}
	return config, nil
}

// mounts translates to bind mounts of the newer kind, which are refused if the
// source is missing; the older kind creates an empty directory instead.
func mounts(specs []engine.Mount) []mount.Mount {
	var binds []mount.Mount
	for _, m := range specs {
		binds = append(binds, mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	return binds
}

// feed copies stdin to the container and closes it. A container need not read
// its stdin, so failing to write is no failure; failing to read is, because the
// container would take what came before for all there is.
func feed(attached *client.HijackedResponse, stdin io.Reader, fail context.CancelCauseFunc) {
	source := &source{reader: stdin}
	_, _ = io.Copy(attached.Conn, source)
	if source.err != nil {
		fail(fmt.Errorf("read what the container gets on stdin: %w", source.err))
		return
	}
	_ = attached.CloseWrite()
}

// source remembers why reading failed.
type source struct {
	reader io.Reader
	err    error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// outlet makes writers whose failure ends the run.
type outlet struct{ fail context.CancelCauseFunc }

func (o outlet) to(name string, w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return writerFunc(func(p []byte) (int, error) {
		n, err := w.Write(p)
		if err == nil && n < len(p) {
			err = io.ErrShortWrite
		}
		if err != nil {
			o.fail(fmt.Errorf("write the container's %s: %w", name, err))
		}
		return n, err
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// discard kills the container if it runs, and removes it. The outcome of the
// run stands without it: what could not be removed still has its labels, and is
// found by them.
func (e *Engine) discard(ctx context.Context, id string) {
	longer, cancel := grace(ctx)
	defer cancel()
	if err := e.Remove(longer, id); err != nil {
		e.log.WarnContext(ctx, "a container is left behind", "container", id, "error", err)
	}
}

// exit completes an exit code by whether memory was lacking, which the code
// need not show.
func (e *Engine) exit(ctx context.Context, id string, code int) (engine.Exit, error) {
	inspected, err := e.client.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if errdefs.IsNotFound(err) {
		return engine.Exit{Code: code}, nil
	}
	if err != nil {
		return engine.Exit{}, e.wrap("look at the ended container", err)
	}
	state := inspected.Container.State
	return engine.Exit{Code: code, OOMKilled: state != nil && state.OOMKilled}, nil
}
