package docker

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/engine"
)

// create makes the container and returns its id, and for one that the shim
// holds the mark by which the shim is known. It is not cut short by a cancel,
// see grace.
func (e *Engine) create(ctx context.Context, spec engine.Spec, stdin bool) (id, mark string, err error) {
	if err := ctx.Err(); err != nil {
		return "", "", err
	}
	if err := checkLengths(spec); err != nil {
		return "", "", err
	}
	ctx, cancel := grace(ctx)
	defer cancel()
	if e.usesShim(spec, stdin) {
		mark = rand.Text()
		id, err = e.newContainer(ctx, spec, stdin, mark)
		if !e.shimFailed(ctx, spec.Image, mark, err) {
			return id, mark, err
		}
		// The engine does not see this machine's files, or not this one.
	}
	id, err = e.newContainer(ctx, spec, stdin, "")
	return id, "", err
}

// longest is how many bytes Linux takes as one argument or variable.
const longest = 128<<10 - 1

// checkLengths refuses what Docker would find out only in the container, where
// it counts as the program's own exit.
func checkLengths(spec engine.Spec) error {
	for i, argument := range spec.Args {
		if len(argument) > longest {
			return &engine.SpecError{Cause: fmt.Errorf("argument %d is too long: it has %d bytes, and Linux takes %d; hand it over on stdin or in a file", i+1, len(argument), longest)}
		}
	}
	for _, variable := range spec.Env {
		if name, _, _ := strings.Cut(variable, "="); len(variable) > longest {
			return &engine.SpecError{Cause: fmt.Errorf("variable %.100s is too long: it has %d bytes, and Linux takes %d; hand it over on stdin or in a file", name, len(variable), longest)}
		}
	}
	return nil
}

func (e *Engine) newContainer(ctx context.Context, spec engine.Spec, stdin bool, mark string) (string, error) {
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
	host := &container.HostConfig{
		Mounts:      mounts(spec),
		NetworkMode: container.NetworkMode(spec.Network),
		AutoRemove:  passing(spec),
		Resources:   limits(spec),
		CapDrop:     []string{"ALL"},
		CapAdd:      engine.Capabilities(),
		LogConfig:   logConfig(spec),
	}
	if spec.Offline && spec.Network == "" {
		// Without a sandbox for a network, whose set-up starts a second dockerd in the
		// start of the container. Both: an engine may know only one of them.
		config.NetworkDisabled, host.NetworkMode = true, "none"
	}
	if spec.Entrypoint != "" {
		config.Entrypoint = []string{spec.Entrypoint}
	}
	// Docker takes an empty command for none given, and falls back on the
	// image's unless the entrypoint is given.
	emptied := spec.Entrypoint == "" && spec.Args != nil && len(spec.Args) == 0
	if emptied || mark != "" {
		if err := e.resolve(ctx, spec, config); err != nil {
			return "", err
		}
	}
	if mark != "" {
		e.insertShim(config, host, spec, mark)
	}
	name := "deployster-" + strings.ToLower(rand.Text())
	var created client.ContainerCreateResult
	var found string
	err := e.ask(ctx, mostLooks, func(ctx context.Context) (err error) {
		created, err = e.client.ContainerCreate(ctx, client.ContainerCreateOptions{Config: config, HostConfig: host, Name: name})
		return err
	}, func(ctx context.Context) bool {
		inspected, err := e.client.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
		found = inspected.Container.ID
		return err == nil
	})
	if err == nil && found != "" {
		return found, nil
	}
	if broken(err) && ctx.Err() == nil { // it may be there, and only its name is known
		e.removals.begin(name, func() { e.forget(ctx, name) })
		return "", &unbegunError{cause: e.wrap("create the container", err)}
	}
	if err != nil {
		return "", e.runError("create the container", spec, err)
	}
	for _, warning := range created.Warnings {
		e.log.WarnContext(ctx, "docker warns about a container", "image", spec.Image, "warning", warning)
	}
	return created.ID, nil
}

// passing reports whether the engine is to remove the container by itself. How one
// with a bound of memory ended is asked for, and is not to be found when it is gone.
func passing(spec engine.Spec) bool { return spec.Passing && spec.Memory == 0 && spec.Kept == 0 }

// resolve completes entrypoint and command by what the image has, as Docker
// does: an entrypoint of the spec drops the image's command.
func (e *Engine) resolve(ctx context.Context, spec engine.Spec, config *container.Config) error {
	if spec.Entrypoint != "" {
		return nil
	}
	var image client.ImageInspectResult
	err := e.once(ctx, func(ctx context.Context) (err error) {
		image, err = e.client.ImageInspect(ctx, spec.Image)
		return err
	})
	if broken(err) {
		return &unbegunError{cause: e.wrap("inspect the image", err)}
	}
	if err != nil {
		return e.runError("inspect the image", spec, err)
	}
	if image.Config == nil {
		return nil
	}
	config.Entrypoint = image.Config.Entrypoint
	if spec.Args == nil {
		config.Cmd = image.Config.Cmd
	}
	return nil
}

// limits translates what a container may use. Swap counts as memory.
func limits(spec engine.Spec) container.Resources {
	resources := container.Resources{Memory: spec.Memory, MemorySwap: spec.Memory}
	if spec.Pids > 0 {
		resources.PidsLimit = &spec.Pids
	}
	return resources
}

// emptySize bounds a file system that stays empty; 0 would not.
const emptySize = 4096

// mounts translates to bind mounts of the newer kind, which are refused if the
// source is missing; the older kind creates an empty directory instead. What is
// hidden is an empty file system.
func mounts(spec engine.Spec) []mount.Mount {
	var all []mount.Mount
	for _, m := range spec.Mounts {
		all = append(all, mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	for _, hidden := range spec.Hide {
		all = append(all, mount.Mount{
			Type: mount.TypeTmpfs, Target: hidden, ReadOnly: true,
			TmpfsOptions: &mount.TmpfsOptions{SizeBytes: emptySize, Mode: 0o555},
		})
	}
	return all
}
