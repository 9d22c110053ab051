package command

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/daemon"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

// labelCommand on the container of a command is "check", "apply" or "remove".
const labelCommand = "deployster.command"

// cleanup is how long removing a container may take once everything else has
// been given up.
const cleanup = 20 * time.Second

// run runs a command to its end in a container of its own and removes it. The
// engine removes the container too, should this process be killed.
func (t commandType) run(ctx context.Context, r protocol.Request[Config], role string, c Command, stdout, stderr io.Writer) (exit int, err error) {
	docker, err := t.connect()
	if err != nil {
		return 0, err
	}
	if err := waitForLeftover(ctx, docker, r); err != nil {
		return 0, err
	}
	if _, err := daemon.EnsureImage(ctx, docker, r.Config.Image, r.Config.RegistryAuth, r.Warnf); err != nil {
		return 0, err
	}
	created, err := docker.ContainerCreate(ctx, client.ContainerCreateOptions{Config: spec(r, role, c), HostConfig: hostSpec(r)})
	if err != nil {
		return 0, fmt.Errorf("creating the container of the %s command: %w", role, err)
	}
	defer func() {
		if e := remove(ctx, docker, created.ID); e != nil && err == nil {
			err = fmt.Errorf("removing the container of the %s command: %w", role, e)
		}
	}()
	return follow(ctx, docker, created.ID, role, stdout, stderr)
}

// remove returns once the container is gone, also when ctx is over.
func remove(ctx context.Context, docker *client.Client, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer cancel()
	_, err := docker.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsConflict(err) { // the engine is removing it already
		gone := docker.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
		select {
		case <-gone.Result:
			err = nil
		case err = <-gone.Error:
		}
	}
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

func follow(ctx context.Context, docker *client.Client, id, role string, stdout, stderr io.Writer) (int, error) {
	stream, err := docker.ContainerAttach(ctx, id, client.ContainerAttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err != nil {
		return 0, fmt.Errorf("attaching to the %s command: %w", role, err)
	}
	defer stream.Close()
	stop := context.AfterFunc(ctx, stream.Close) // else the copy would outlive the context
	defer stop()
	// Before the start: afterwards the container may be gone already.
	ended := docker.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if _, err := docker.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
		return 0, fmt.Errorf("starting the %s command: %w", role, err)
	}
	if _, err := stdcopy.StdCopy(stdout, stderr, stream.Reader); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return 0, fmt.Errorf("reading the output of the %s command: %w", role, err)
	}
	select {
	case result := <-ended.Result:
		if result.Error != nil {
			return 0, fmt.Errorf("waiting for the %s command: %s", role, result.Error.Message)
		}
		return int(result.StatusCode), nil
	case err := <-ended.Error:
		return 0, fmt.Errorf("waiting for the %s command: %w", role, err)
	}
}

// waitForLeftover waits until a command that changes things has ended, which an
// earlier run of this resource started and did not live to see end.
func waitForLeftover(ctx context.Context, docker *client.Client, r protocol.Request[Config]) error {
	for _, role := range []string{"apply", "remove"} {
		list, err := docker.ContainerList(ctx, client.ContainerListOptions{Filters: client.Filters{}.Add("label",
			daemon.LabelManaged+"="+r.Name, daemon.LabelWorkspace+"="+r.Workspace, labelCommand+"="+role)})
		if err != nil {
			return fmt.Errorf("looking for what an earlier run left: %w", err)
		}
		for _, c := range list.Items {
			r.Warnf("waiting for the %s command of an earlier run (container %.12s)", role, c.ID)
			ended := docker.ContainerWait(ctx, c.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
			select {
			case <-ended.Result:
			case err := <-ended.Error:
				if err != nil && !errdefs.IsNotFound(err) {
					return fmt.Errorf("waiting for container %s: %w", c.ID, err)
				}
			}
		}
	}
	return nil
}

func mountsWorkspace(r protocol.Request[Config]) bool {
	return r.Workspace != "" && (r.Config.MountWorkspace == nil || *r.Config.MountWorkspace)
}

func spec(r protocol.Request[Config], role string, c Command) *container.Config {
	workdir := r.Config.Workdir
	if workdir == "" && mountsWorkspace(r) {
		workdir = r.Workspace
	}
	return &container.Config{
		Image: r.Config.Image, Entrypoint: c[:1], Cmd: c[1:],
		Env: append(r.Config.Env.List(), r.Config.SecretEnv.List()...), WorkingDir: workdir, User: r.Config.User,
		AttachStdout: true, AttachStderr: true,
		Labels: daemon.Owner{Resource: r.Name, Workspace: r.Workspace}.Labels(map[string]string{labelCommand: role}),
	}
}

// stateDir is the directory of the workspace that no type may see, as this one
// sees it, empty. A link may lead to elsewhere in the workspace; what it leads to
// outside of it the container does not see.
func stateDir(workspace string) (string, bool) {
	found, err := filepath.EvalSymlinks(filepath.Join(workspace, ".deployster"))
	if err != nil || !strings.HasPrefix(found, workspace+"/") {
		return "", false
	}
	return found, true
}

func hostSpec(r protocol.Request[Config]) *container.HostConfig {
	host := &container.HostConfig{
		AutoRemove: true, NetworkMode: container.NetworkMode(r.Config.Network),
		// Output of any size must not fill the engine's disk: it is read from the stream.
		LogConfig: container.LogConfig{Type: "none"},
	}
	if mountsWorkspace(r) {
		host.Mounts = []mount.Mount{{Type: mount.TypeBind, Source: r.Workspace, Target: r.Workspace, ReadOnly: true}}
		if hidden, ok := stateDir(r.Workspace); ok {
			host.Mounts = append(host.Mounts, mount.Mount{
				Type: mount.TypeTmpfs, Target: hidden, ReadOnly: true, TmpfsOptions: &mount.TmpfsOptions{SizeBytes: 4096, Mode: 0o555},
			})
		}
	}
	return host
}
