package resource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/apply"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/client"
	"github.com/deployster-go/deployster/internal/proposal"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

// sentOptions are those of commands that only a server heeds.
type sentOptions struct {
	public  []string               // variables that are no secrets
	changed func(flag string) bool // a flag was given
}

func (o *sentOptions) register(c *cobra.Command) {
	c.Flags().StringArrayVar(&o.public, "allow-logged", nil, "through a server: a variable that is no secret, although something secret reads it, or its file is not of the workspace (repeatable)")
	o.changed = func(flag string) bool { f := c.Flags().Lookup(flag); return f != nil && f.Changed }
}

// remote is the server that a command is sent to; nil is none. What is only for the one or for
// the other is refused.
func (o *sentOptions) remote(a *app.App) (*client.Client, error) {
	remote, err := a.Remote()
	switch {
	case err != nil:
		return nil, err
	case remote == nil && len(o.public) > 0:
		return nil, exit.Usage("--allow-logged says what may be sent to a server, and without --server nothing is")
	}
	return remote, nil
}

// ofServer are flags that say how containers are run, which is for the server to say.
var ofServer = []string{"engine", "oci-runtime", "allow-unbounded", "kubeconfig", "context", "namespace", "pod-security", "image-pull-secret", "node-selector", "toleration", "service-account", "copy-workspace", "parallelism", "pull", "network", "types-image", "memory", "pids", "max-work", "max-work-all", "no-cache", "abandon"}

// check refuses what the server says itself.
func (o *sentOptions) check() error {
	if i := slices.IndexFunc(ofServer, o.changed); i >= 0 {
		return exit.Usage("--%s is said to the server, as deployster serve --%s: it runs the containers", ofServer[i], ofServer[i])
	}
	return nil
}

// changeRemote has a server apply manifests as they are here, or destroy what they declare, after
// a question where one is asked.
func changeRemote(ctx context.Context, a *app.App, o applyOptions, command string, remote *client.Client) error {
	mode, err := o.confirmWhole(a, command)
	if err != nil {
		return err
	}
	asked, _, err := collect(a, o.staticOptions, o.sent.public)
	if err != nil {
		return err
	}
	asked.KeepGoing = o.keepGoing
	if mode == runner.ConfirmOnce {
		if asked.Plan, err = confirmRemote(ctx, a, remote, asked); err != nil {
			return err
		}
	}
	return carryOut(ctx, a, o, command, remote, asked)
}

// confirmWhole is whether a server's plan is asked for.
func (o *applyOptions) confirmWhole(a *app.App, command string) (mode runner.ConfirmMode, err error) {
	o.confirm = o.confirm.Whole()
	mode, err = o.confirm.Parse()
	if err == nil {
		err = o.sent.check()
	}
	if err == nil && mode != runner.ConfirmNo && mode != runner.ConfirmOnce {
		err = exit.Usage("a server asks for the whole plan, and not for each part of it (--confirm %s): say --confirm ONCE, or --yes to %s without a question", mode, command)
	}
	if err == nil {
		_, err = prompt.ConfirmMode(a, o.confirm) // there must be somebody to ask
	}
	return mode, err
}

// carryOut has a server carry out a run, and shows it.
func carryOut(ctx context.Context, a *app.App, o applyOptions, command string, remote *client.Client, asked proposal.Run) error {
	begun, err := remote.BeginRun(ctx, asked)
	if err != nil {
		return err
	}
	if !o.watch {
		document := map[string]any{"type": "begun", "run": begun.Run, "target": begun.Target, "server": remote.Name()}
		return a.Show(document, func() error {
			return a.Printf("run %s has begun at server %s; follow it with: deployster log follow --deployment %s\n", output.InLine(begun.Run), remote.Name(), output.InLine(begun.Run))
		})
	}
	f := following{remote: remote, begun: begun, screen: a.OpenScreen(command), recorded: true}
	err = f.untilEnded(ctx, a)
	return errors.Join(err, f.screen.Close())
}

// collect reads the manifests with all that they include, and keeps that at the server. in is what
// they come to here.
func collect(a *app.App, o staticOptions, public []string) (r proposal.Run, in *work.Input, err error) {
	r = proposal.Run{Destroy: o.input.Removing, Targets: o.input.Targets, Replace: o.input.Replace, Prune: o.input.Prune, Verbose: a.Verbose}
	for _, path := range o.files {
		name, err := session.ManifestBelow(a.Workspace, path)
		if err != nil {
			return r, nil, exit.Usage("%s: %w: what is sent to a server must be a file of the workspace", path, err)
		}
		r.Manifests = append(r.Manifests, name)
	}
	// What is wrong with the manifests is said as without a server.
	in, err = session.LoadAndWarn(a, o.files, o.input, runner.ConfirmNo)
	switch {
	case err != nil:
	case o.input.Removing:
		session.NoteDependents(a, in, o.input.Targets)
	default:
		err = in.Conflicts()
	}
	if err != nil {
		return r, nil, err
	}
	sources, err := manifest.ReadFiles(o.files)
	if err != nil {
		return r, nil, exit.Invalid(err)
	}
	for i := range sources {
		sources[i].Name = r.Manifests[i]
	}
	given, err := session.Assignments(a, o.input, nil, sources...)
	if err != nil {
		return r, nil, err
	}
	collected, err := work.Collect(a.Workspace, nil, given, sources...)
	if err == nil {
		err = collected.Unchanged(a.Workspace)
	}
	if err == nil {
		err = session.NoteOmitted(a, collected)
	}
	if err != nil {
		return r, nil, err
	}
	pinning, err := session.Pinning(a, o.input, public)
	if err == nil {
		err = collected.Pin(pinning)
	}
	if err == nil {
		err = lockInto(a, o, in, collected.Files)
	}
	if err == nil {
		err = pinning.Texts.KeepAll(collected.Files)
	}
	r.Carries = collected.Files.Digests()
	return r, in, err
}

// following is a run at a server that is shown here.
type following struct {
	remote   *client.Client
	begun    proposal.Begun
	screen   *output.Screen
	recorded bool // it is in the log
}

// steps are what signals do.
func (f *following) steps() [2]string {
	if !f.recorded {
		return [2]string{"stopping: nothing is changed", "leaving the plan to the server"}
	}
	return [2]string{
		"stopping: the server lets running actions finish first; interrupt again to leave the run to it",
		fmt.Sprintf("run %s goes on at server %s; follow it with: deployster log follow --deployment %s", f.begun.Run, f.remote.Name(), f.begun.Run),
	}
}

// untilEnded shows a run until it has ended. The first signal has the server stop it, as it would
// stop a run here, and the second one leaves it.
func (f *following) untilEnded(ctx context.Context, a *app.App) error {
	ctx, signals := interrupt.Announce(ctx, f.steps(), a.Notice)
	defer signals.Done()
	reading, cancel := context.WithCancel(ctx)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		f.stopOn(reading, signals.Stop, a)
	}()
	defer func() {
		cancel()
		<-asked
	}()
	end, err := f.remote.FollowRun(reading, f.begun.Run, func(o proposal.Observed) {
		if o.Notice != "" {
			a.Notice("note: " + view.Clean(o.Notice))
			return
		}
		if f.screen.Observer != nil {
			f.screen.Observe(o.Event.Event())
		}
	})
	switch {
	case ctx.Err() != nil:
		return exit.Reported(runner.ErrInterrupted)
	case err == nil:
		return ended(end)
	case !f.recorded && errors.Is(err, client.ErrNotFollowed):
		return errors.New("the server ended before it had planned, and nothing was changed: plan again")
	case !f.recorded:
		return err
	case errors.Is(err, client.ErrNotFollowed):
		return lost(ctx, a, f.remote, f.begun.Run)
	default:
		return fmt.Errorf("run %s may go on at the server, follow it with deployster log follow --deployment %s: %w", f.begun.Run, f.begun.Run, err)
	}
}

// stopTime is for how long a server is still asked to stop a run that is left to it.
const stopTime = 5 * time.Second

// stopOn has the server stop the run when stop is closed, unless nobody reads of it any more by
// then. Who was told that it is stopped may leave at once: it is stopped all the same.
func (f *following) stopOn(reading context.Context, stop <-chan struct{}, a *app.App) {
	select {
	case <-stop:
	case <-reading.Done():
		select {
		case <-stop:
		default:
			return
		}
	}
	asking, end := context.WithCancel(context.WithoutCancel(reading))
	defer end()
	defer context.AfterFunc(reading, func() { time.AfterFunc(stopTime, end) })()
	if err := f.remote.StopRun(asking, f.begun.Run); err != nil && reading.Err() == nil {
		a.Notice(fmt.Sprintf("the server could not be asked to stop run %s: %v", f.begun.Run, err))
	}
}

// ended is how the command ends where the run has ended so.
func ended(end proposal.End) error {
	if len(end.Problems) > 0 {
		return &manifest.Error{Problems: end.Problems}
	}
	var err error
	switch cause := errors.New(end.Error); apply.Outcome(end.Outcome) {
	case apply.Succeeded:
		return nil
	case apply.Nothing:
		return apply.ErrNoOrphans
	case apply.Interrupted:
		err = fmt.Errorf("%w: %w", runner.ErrInterrupted, cause)
	case apply.Refused:
		err = exit.Invalid(cause)
	default:
		err = cause
	}
	if end.Error == "" { // the events say why
		return exit.Reported(err)
	}
	return err
}

// lost is how the command ends where the server does not carry the run out any more: it was
// ended, or another one has it.
func lost(ctx context.Context, a *app.App, remote *client.Client, run string) (err error) {
	log, err := remote.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	one, err := until(ctx, log, run)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("run %s was not seen to its end, and by the log it %s; deployster log list --deployment %s shows what was done", run, one.Summary(), run)
	switch one.Outcome {
	case query.RunSucceeded:
		return a.Show(map[string]any{"type": "ended", "run": one}, func() error { return a.Printf("%s\n", view.Clean(text)) })
	case query.RunInterrupted:
		return fmt.Errorf("%w: %s", runner.ErrInterrupted, text)
	case query.RunDied, query.RunAbandoned:
		return fmt.Errorf("the server ended before run %s did; apply again: the next run finds out what became of what was running (deployster log list --deployment %s shows what was done)", run, run)
	default:
		return errors.New(text)
	}
}

// until is a run that has ended, or whose process is dead.
func until(ctx context.Context, log deploylog.Log, run string) (*query.Run, error) {
	one, err := query.RunOf(ctx, log, run, 0)
	if err != nil || one.Outcome != query.RunInProgress {
		return one, err
	}
	for _, err := range log.Watch(ctx, deploylog.Filter{Deployment: run, Target: "run/", After: one.Seq}) {
		if err != nil {
			return nil, err
		}
		break
	}
	return query.RunOf(ctx, log, run, 0)
}
