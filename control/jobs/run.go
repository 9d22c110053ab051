package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/runner/invoke"
)

// labels are those by which the container of the attempt is found.
func (a *attempt) labels() map[string]string {
	labels := a.anyAttempt()
	labels[invoke.LabelAttempt] = strconv.Itoa(a.task.Attempt)
	return labels
}

// anyAttempt are the labels of the containers of all attempts of the job.
func (a *attempt) anyAttempt() map[string]string {
	return map[string]string{
		invoke.LabelLog: a.Log, invoke.LabelKind: KindJob, LabelJob: a.task.Group + "/" + strconv.Itoa(a.task.Job),
	}
}

// clear removes what earlier attempts left whose process died.
func (a *attempt) clear(ctx context.Context) error {
	for n := 1; n <= a.task.Attempt; n++ {
		dir := a.workDir(a.task.Group, a.task.Job, n)
		_ = os.Remove(dir + resultSuffix)
		if err := a.removeAll(ctx, a.worker, dir); err != nil {
			a.leftBehind(ctx, dir, err)
		}
	}
	if a.task.Attempt < 2 {
		return nil
	}
	left, err := a.worker.Engine.Containers(ctx, a.anyAttempt())
	if err != nil {
		return err
	}
	for _, c := range left {
		if err := a.worker.Engine.Remove(ctx, c.ID); err != nil {
			return err
		}
	}
	return nil
}

// spec is the container of the job.
func (a *attempt) spec(ctx context.Context) (engine.Spec, error) {
	if err := a.getImage(ctx); err != nil {
		return engine.Spec{}, err
	}
	mounts, err := a.mounts(ctx)
	if err != nil {
		return engine.Spec{}, err
	}
	r := &a.recipe
	spec := engine.Spec{
		Image: a.image.ID, Entrypoint: r.Entrypoint, Args: r.Args, Env: a.env(), WorkDir: targetSources, Mounts: mounts, Labels: a.labels(),
		Network: r.Network, Timeout: r.Timeout, Memory: r.Memory, Pids: r.Pids, Kept: 2 * maxLog,
	}
	if spec.Hide, err = a.views.Seen(filepath.Join(a.Workspace, engine.StateDir), mounts); err != nil {
		return engine.Spec{}, fmt.Errorf("hiding what jobs may not see: %w", err)
	}
	return spec, nil
}

// run runs the container to its end. When the job is canceled, the container is stopped and
// removed; when this process is to end, it is left.
func (a *attempt) run(ctx context.Context) (end, error) {
	if err := errors.Join(a.prepare(), a.enoughSpace()); err != nil {
		return end{}, fmt.Errorf("preparing the job: %w", err)
	}
	spec, err := a.spec(ctx)
	if err != nil {
		return end{}, err
	}
	log, err := createLog(a.logPath())
	if err != nil {
		return end{}, fmt.Errorf("making its log: %w", err)
	}
	a.began = a.Now()
	if err := note(a.progress(), progress{Begun: &begun{a.began, a.image, a.engineName()}}); err != nil {
		return end{}, errors.Join(fmt.Errorf("preparing the job: %w", err), log.close())
	}
	a.exists = true
	running, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	ended := make(chan outcome, 1)
	go func() {
		defer stop(nil)
		ended <- a.container(running, spec, log)
	}()
	a.writes(running, stop)
	go a.watchDisk(running)
	select {
	case o := <-ended:
		return o.end, o.err
	case <-ctx.Done():
		err := interrupted(ctx)
		if errors.Is(err, errLeft) {
			return end{}, err
		}
		stop(err)
		<-ended
		return end{}, err
	}
}

// outcome is how a container ended.
type outcome struct {
	end end
	err error
}

// container runs the container, writes its log, and notes how it ended.
func (a *attempt) container(ctx context.Context, spec engine.Spec, log *logFile) (o outcome) {
	defer crash.Catch(&o.err, "doing a job")
	out, flush := a.secret.hidden.Masked(log)
	exit, err := a.worker.Engine.Run(ctx, spec, engine.IO{Stdout: out, Stderr: out})
	o.end = end{Exit: exit, Began: a.began, Ended: a.Now()}
	if flushed := errors.Join(flush(), log.close()); flushed != nil {
		a.Logger.WarnContext(ctx, "the log of a job is not whole", "log", a.log, "error", flushed)
		a.unlogged = engine.Full(flushed)
	}
	if cause := context.Cause(ctx); errors.Is(cause, errDisk) || errors.Is(cause, errCrowded) {
		err = cause
	}
	if err != nil {
		o.err = a.explain(err, o.end.took())
		return o
	}
	o.err = a.noteEnd(o.end)
	return o
}

// noteEnd notes how the container ended for whoever resumes the job. That it has ended is known
// also where there is no room for it.
func (a *attempt) noteEnd(e end) error {
	err := note(a.progress(), progress{Ended: &e})
	if err != nil && engine.Full(err) {
		a.Logger.WarnContext(context.Background(), "how a job ended is not noted: where this process dies now, it is done again", "job", a.task.Target(), "error", err)
		return nil
	}
	return err
}

// begun is what is known before there is a container.
type begun struct {
	At     time.Time    `json:"at"`
	Image  engine.Image `json:"image"`
	Engine string       `json:"engine,omitempty"`
}

// end is how a container ended.
type end struct {
	Exit  engine.Exit `json:"exit"`
	Began time.Time   `json:"began"`
	Ended time.Time   `json:"ended,omitzero"` // zero where nobody saw it
}

func (e end) took() time.Duration {
	if e.Ended.IsZero() {
		return 0
	}
	return max(0, e.Ended.Sub(e.Began)) // the clock may have been set back
}

// within is an end that is neither before the beginning nor to come: the clock of an engine may
// be another than that of this machine, which may have been set.
func (e end) within(now time.Time) end {
	if e.Ended.After(now) {
		e.Ended = now
	}
	if !e.Ended.IsZero() && e.Ended.Before(e.Began) {
		e.Ended = e.Began
	}
	return e
}
