package env

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
)

// follower follows a deployment to its end. What happens it reads in the log,
// whichever process works on it; a controller in this process does where none else
// is at work.
type follower struct {
	app     *app.App
	names   *environmentSet
	name    string
	id      string // of the deployment that is followed; that of a rollback that comes of itself takes its place
	screen  *output.Events
	seen    int64 // the last event that was shown
	failure error // why it cannot succeed any more
}

// deployAndWait has a deployment started, and follows it.
func deployAndWait(ctx context.Context, a *app.App, command string, e *environmentSet, name string, wanted environment.Command, flags workFlags) (err error) {
	if err := errors.Join(a.CheckParallelism(), flags.check()); err != nil {
		return err
	}
	screen, closeScreen := a.LiveEvents()
	ctx, signals := interrupt.Handle(ctx, screen.Notice)
	defer signals.Done()
	workers, err := session.OpenWorkers(a, e.log, flags.WorkerFlags, screen)
	if err != nil {
		return errors.Join(err, closeScreen())
	}
	defer func() { err = errors.Join(err, workers.Close()) }()
	if err := session.WarnUnread(a, workers.Tasks.Unread(e.tasks([]string{name})), flags.Input.Strict); err != nil {
		return errors.Join(err, closeScreen())
	}
	events, err := e.Command(ctx, name, wanted)
	if err != nil {
		return errors.Join(exit.Refused(err), closeScreen())
	}
	f := &follower{app: a, names: e, name: name, id: startedBy(events), screen: screen, seen: events[0].Seq - 1}
	screen.Begin(command, map[string]any{"environment": name, "deployment_id": f.id})
	if f.id != "" { // else there was nothing to do
		err = f.follow(ctx, signals, environments.Options{
			Options: reconcile.Options{Log: e.log, Scope: reconcile.Only(name), Parallelism: a.Global.Parallelism, Now: a.Now},
			Tasks:   workers.Tasks, Inventory: workers.Hosts, Observer: output.Unrecorded{Events: screen}, ProbeEvery: flags.checkEvery,
		})
	}
	return f.conclude(err, signals, closeScreen)
}

// follow shows what happens until the deployment has ended and the controller
// with it.
func (f *follower) follow(ctx context.Context, signals *interrupt.Signals, o environments.Options) error {
	stop := make(chan struct{})
	halt := sync.OnceFunc(func() { close(stop) })
	o.Drain = stop
	ended := make(chan error, 1)
	go func() {
		ended <- crash.Do("controlling "+f.name, func() error { return environments.NewController(o).Run(ctx) })
	}()
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	news := f.watch(watching)
	interrupted := signals.Stop
	for {
		select {
		case err := <-ended:
			return errors.Join(err, f.refresh(context.WithoutCancel(ctx)))
		case err := <-news:
			if err == nil {
				err = f.refresh(ctx)
			}
			if err != nil {
				halt()
				return errors.Join(<-ended, err)
			}
			if f.over() {
				halt()
			}
		case <-interrupted:
			interrupted = nil
			halt()
		}
	}
}

// watch signals each new event of the environment in the log, or why the log cannot
// be watched any longer.
func (f *follower) watch(ctx context.Context) <-chan error {
	news := make(chan error, 1)
	news <- nil // the beginning
	go func() {
		defer crash.End(app.StateDir, "watching the log")
		for e, err := range f.names.log.Watch(ctx, deploylog.Filter{After: f.names.Head()}) {
			if err != nil {
				select {
				case news <- fmt.Errorf("watching the log: %w", err):
				case <-ctx.Done():
				}
				return
			}
			if name, _ := environment.NameOf(e.Target); name != f.name {
				continue
			}
			select {
			case news <- nil:
			default: // it is known already
			}
		}
	}()
	return news
}

// refresh reads the new events and shows them.
func (f *follower) refresh(ctx context.Context) error {
	if err := f.names.Follow(ctx, 0); err != nil {
		return err
	}
	head := f.names.Head()
	for e, err := range f.names.log.Read(ctx, deploylog.Filter{After: f.seen, Until: head}) {
		if err != nil {
			return err
		}
		f.seen = e.Seq
		if name, _ := environment.NameOf(e.Target); name == f.name {
			f.screen.Recorded(e)
		}
	}
	f.screen.Table(f.names.report(f.name), f.deployment())
	return nil
}

// deployment is the one that is followed, as it is now.
func (f *follower) deployment() (d environment.Deployment) {
	_ = f.names.Ask(f.name, func(s *environment.State) error {
		all := s.Deployments()
		if i := slices.IndexFunc(all, func(d environment.Deployment) bool { return d.ID == f.id }); i >= 0 {
			d = all[i]
		}
		return nil
	})
	return d
}

// over reports whether the deployment has ended. An automatic rollback of it is
// followed to its own end.
func (f *follower) over() (over bool) {
	_ = f.names.Ask(f.name, func(s *environment.State) error {
		all := s.Deployments()
		i := slices.IndexFunc(all, func(d environment.Deployment) bool { return d.ID == f.id })
		if i < 0 { // nothing was to be done
			over = true
			return nil
		}
		d := all[i]
		if !s.Exists() {
			over = true
			if d.Kind != environment.ByDelete {
				f.failure = fmt.Errorf("environment %s was deleted while it was followed", f.name)
			}
			return nil
		}
		for d.Status == environment.DeploymentSuperseded {
			if i++; i == len(all) || !all[i].Automatic {
				f.failure = fmt.Errorf("deployment %s has not finished: %s", d.ID, d.Cause)
				over = true
				return nil
			}
			f.failure = fmt.Errorf("deployment %s was stuck, and was rolled back to revision %d", d.ID, all[i].Revision)
			d, f.id = all[i], all[i].ID
		}
		over = d.Status == environment.DeploymentFinished
		if d.Status == environment.DeploymentStuck {
			over = true
			f.failure = fmt.Errorf("deployment %s is stuck: deployster env run %s retries it, env rollback goes back to an earlier revision", d.ID, f.name)
		}
		return nil
	})
	return over
}

// conclude prints how the deployment ended.
func (f *follower) conclude(err error, signals *interrupt.Signals, closeScreen func() error) error {
	over, interrupted := f.over(), errors.Is(err, context.Canceled) || signals.Count.Load() > 0 && err == nil
	switch {
	case over && interrupted: // it ended all the same
		err = nil
	case interrupted:
		f.screen.Notice(fmt.Sprintf("the deployment stays active: deployster env run %s goes on with it", f.name))
		err = exit.Reported(runner.ErrInterrupted)
	case err == nil && !over:
		err = fmt.Errorf("deployment %s is not at its end, but the controller is: deployster env run %s goes on", f.id, f.name)
	}
	if err := errors.Join(err, closeScreen()); err != nil {
		return err
	}
	report := f.names.report(f.name)
	switch {
	case f.app.JSON():
		f.screen.End(map[string]any{"deployment_id": f.id, "deployment": f.deployment(), "report": report})
		return f.failure
	case f.failure != nil && !f.screen.Live():
		return errors.Join(view.Environment(f.app.Out, report, false, f.app.PlanOptions(f.app.Out)), f.failure)
	case f.failure != nil:
		return f.failure
	case report.Deleted:
		return f.app.Printf("environment %s is deleted\n", f.name)
	}
	return f.app.Printf("deployment %s has finished: %s healthy\n", f.id, phrase.Count(report.Healthy, "host"))
}
