package invoke

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/protocol"
)

// The labels that containers carry, so that one that outlived its run can be
// found and judged. One that serves belongs to no resource: it has no others
// than those of log, run and kind.
const (
	LabelLog      = "deployster.log"      // id of the deployment log of the run
	LabelRun      = "deployster.run"      // ULID of the run
	LabelResource = "deployster.resource" // name in the manifest; see Placed
	LabelAction   = "deployster.action"   // "init", "state" or the action's name
	LabelAttempt  = "deployster.attempt"  // of the action, from 1
	LabelKind     = "deployster.kind"     // KindObserve, KindAct or KindServe
)

// The values of LabelKind. What only observes may be stopped and run again at
// any time; what acts must be let finish; what serves does either, as it is
// asked. An action may well be called "init".
const (
	KindObserve = "observe"
	KindAct     = "act"
	KindServe   = "serve"
)

// Placed distinguishes the resources of several places, as labels and the log name
// them: "db@host1".
func Placed(resource, place string) string {
	if place == "" {
		return resource
	}
	return resource + "@" + place
}

// ResourceID identifies a resource, by its name with its place, in all the world: the id of
// the log is random, and another in each workspace. It is the same in all runs.
func ResourceID(log, placed string) string {
	if log == "" {
		return ""
	}
	return log + "/" + placed
}

// keptOutput is how many bytes of a container's output the engine keeps while the container is there, so
// that the rest can be read after a connection broke.
const keptOutput = 32 << 20

// workVariable tells a container where its work directory is.
const workVariable = "DEPLOYSTER_WORK=" + protocol.WorkDir

// container makes a call by running a container for it. Its program starts when
// hold is closed, if there is one.
func (v *Invoker) container(ctx context.Context, t *Target, c *pendingCall, hold <-chan struct{}) (engine.Exit, error) {
	spec, err := v.containerSpec(c.Invocation, c.image, t.Mounts, t.offlineFor(c.Invocation), v.unfollowed(t.Former), c.path)
	if err != nil {
		return engine.Exit{}, err
	}
	spec.Timeout = c.timeout
	spec.Labels[LabelResource], spec.Labels[LabelAction] = Placed(c.resource, v.containers.Place), c.Action
	spec.Labels[LabelAttempt], spec.Labels[LabelKind] = strconv.Itoa(c.Attempt), KindAct
	if c.Answers {
		spec.Labels[LabelKind] = KindObserve
	}
	spec.Hold, spec.Whole = hold, true
	if !c.Answers || v.containers.Remote {
		spec.Kept = keptOutput // a connection that breaks must not end an action
	}
	return v.runContainer(ctx, spec, engine.IO{Stdin: bytes.NewReader(c.stdin), Stdout: c.stdout, Stderr: c.stderr})
}

// offlineFor reports whether a container needs no network. What a type says of its needs, it says of
// its own image.
func (t *Target) offlineFor(i protocol.Invocation) bool { return t.offline && t.runsOwnImage(i) }

// containerSpec is what the containers of a run have in common. One that is offline has no network
// where the run names none. No link in written is followed. path begins that of the container's work directory, which is
// made.
func (v *Invoker) containerSpec(run protocol.Invocation, image engine.Image, plugs []engine.Mount, offline bool, written []string, path string) (engine.Spec, error) {
	c := &v.containers
	spec := engine.Spec{
		Image: image.ID, Entrypoint: run.Entrypoint, Args: run.Args, Mounts: plugs, Network: c.Network, Offline: offline, Memory: c.Memory, Pids: c.Pids,
		Labels: map[string]string{LabelLog: c.Log, LabelRun: c.Run},
	}
	if c.Works {
		spec.Work, spec.Env = protocol.WorkDir, append(spec.Env, workVariable)
	}
	if c.Remote && !c.Copies {
		return spec, nil
	}
	if c.Remote {
		if err := c.showWorkspace(&spec, written, nil); err != nil {
			return spec, err
		}
		return c.hideState(spec)
	}
	// One that appears while the container runs would be seen.
	if err := os.MkdirAll(c.StateDir(), 0o700); err != nil {
		return spec, fmt.Errorf("making the directory that no type sees: %w", err)
	}
	work := path + workSuffix
	if err := errors.Join(os.MkdirAll(work, 0o700), openToAll(work)); err != nil {
		return spec, fmt.Errorf("making a work directory: %w", err)
	}
	if err := c.showWorkspace(&spec, written, []engine.Mount{{Source: work, Target: protocol.WorkDir}}); err != nil {
		return spec, err
	}
	spec.Env = append(spec.Env, workVariable)
	return c.hideState(spec)
}

// hideState hides the directory that no type sees, wherever a container would see it.
func (c *Containers) hideState(spec engine.Spec) (_ engine.Spec, err error) {
	if spec.Hide, err = engine.Seen(c.StateDir(), spec.Mounts); err != nil {
		return spec, fmt.Errorf("hiding what types may not see: %w", err)
	}
	return spec, nil
}

// showWorkspace has a container see the workspace and what is given of its own, before all that may
// be mounted within them. All is what is there now, and plugs are nothing that no type may see.
func (c *Containers) showWorkspace(spec *engine.Spec, written []string, own []engine.Mount) error {
	spec.WorkDir = c.Workspace
	spec.Env = append(spec.Env, "DEPLOYSTER_WORKSPACE="+c.Workspace)
	own, err := engine.Finder{}.Pin(append([]engine.Mount{{Source: c.Workspace, Target: c.Workspace, ReadOnly: true}}, own...))
	if err != nil {
		return err
	}
	plugs, err := engine.Finder{Hidden: c.StateDir(), Written: written}.Pin(spec.Mounts)
	if err != nil {
		return err
	}
	spec.Mounts = append(own, plugs...)
	return nil
}

// openToAll lets any user of a container write into a directory; on this
// machine its parents keep others out.
func openToAll(dir string) error {
	return os.Chmod(dir, 0o777) //nolint:gosec // see above
}
