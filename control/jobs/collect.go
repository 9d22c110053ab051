package jobs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/pattern"
)

// collect makes an artifact of what the container left, if it ended well. It may be called
// again where it was cut short.
func (a *attempt) collect(ctx context.Context, e end) (*record.Finished, error) {
	e = e.within(a.Now())
	if e.Exit.Code != 0 {
		return nil, a.exited(ctx, e.Exit, e.took())
	}
	failed := func(format string, args ...any) error {
		return &failedError{cause: fmt.Sprintf(format, args...), took: e.took()}
	}
	metadata, err := readMetadata(filepath.Join(a.dir, metadataName), a.secret.mask)
	if err != nil {
		return nil, failed("what it wrote to $DEPLOYSTER_METADATA: %v", err)
	}
	limits := a.Limits
	limits.MinFree = max(limits.MinFree, a.MinFree)
	made, err := a.Artifacts.Collect(ctx, filepath.Join(a.dir, outName), limits)
	var refused *artifacts.RefusedError
	switch {
	case errors.As(err, &refused):
		return nil, failed("what it made in $DEPLOYSTER_OUT: %v", refused)
	case err != nil:
		return nil, fmt.Errorf("collecting what it made: %w", err)
	}
	inputs, err := a.inputs(ctx)
	if err != nil {
		return nil, err
	}
	finished := &record.Finished{
		Artifact: made.Digest, Inputs: inputs, Size: made.Size, Files: made.Files, Worker: a.task.Worker, Engine: a.engineName(),
		Image: a.image.ID, Commit: a.task.Commit, Metadata: metadata, Took: e.took(),
	}
	if a.Provenance != nil {
		made := Made{Task: a.task, Recipe: a.recipe, Artifact: made, Began: e.Began, End: e.Ended, Engine: finished.Engine, Image: a.image, Metadata: metadata}
		if finished.Provenance, err = a.Provenance(ctx, made); err != nil {
			return nil, fmt.Errorf("keeping how it was made: %w", err)
		}
	}
	if a.task.Artifacts != "" {
		if finished.Pushed, err = a.push(ctx, made.Digest, finished.Provenance); err != nil {
			return nil, &failedError{cause: unpushed(a.task, made.Digest, err), took: e.took(), unpushed: finished}
		}
	}
	return finished, nil
}

func (a *attempt) engineName() string {
	if a.engine != "" {
		return a.engine
	}
	return a.worker.Info.Name + " " + a.worker.Info.Version
}

// The tries to push an artifact, and the pause before the second of them; each following one
// is twice as long, up to the longest. Together they last for three minutes, which a registry
// may take to be started again. One that refuses does so for a reason that goes away less often.
const (
	pushTries        = 9
	deniedTries      = 4
	pushPause        = time.Second
	longestPushPause = time.Minute
)

// push gives an artifact to the repository of the group, and how it was made. A registry that
// does not answer for a moment is no reason to build it again.
func (a *attempt) push(ctx context.Context, digest, provenance string) (reference string, err error) {
	pause := pushPause
	for try := 1; ; try++ {
		reference, err = a.Artifacts.Push(ctx, digest, a.task.Artifacts, tag(a.task), nil)
		if err == nil && provenance != "" && a.Attach != nil {
			err = a.Attach(ctx, reference, provenance)
		}
		tries := pushTries
		if errors.Is(err, artifacts.ErrDenied) || spoiled(err) {
			tries = deniedTries
		}
		if err == nil || try >= tries || ctx.Err() != nil {
			return reference, err
		}
		if try == 1 {
			a.Logger.WarnContext(ctx, "an artifact could not be pushed: it is tried again for some minutes", "job", a.task.Target(), "error", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		pause = min(2*pause, longestPushPause)
	}
}

// unpushed says that an artifact could not be pushed.
func unpushed(t build.Task, digest string, err error) string {
	return fmt.Sprintf("%s is built, and could not be pushed to %s: %v; `deployster build retry %s` pushes it, and builds it no more", digest, t.Artifacts, err, t.Group)
}

// maxTag is how long the name of a version in a registry may be.
const maxTag = 128

// notInTags matches what no tag has.
var notInTags = pattern.Lazy(`[^A-Za-z0-9_.-]`)

// tag is by which name the artifact of a job is in a registry, besides its digest: registries
// drop what has no name.
func tag(t build.Task) string {
	name := notInTags().ReplaceAllString(fmt.Sprintf("%s.%d-%s", t.Group, t.Job, t.Package), "_")
	return name[:min(len(name), maxTag)]
}
