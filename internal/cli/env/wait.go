package env

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
)

// follower follows a deployment to its end. What happens it reads in the log,
// whichever process works on it; a controller in this process does where none else
// is at work.
type follower struct {
	app          *app.App
	environments *query.Environments
	name         string
	screen       *output.Events
	done         string   // what is said then, where until is given
	hosts        []string // of whose tasks it is told why nothing happens with them
	selected     []string // hosts that the query of the revision selects here
	inventory    string   // the one here
	promotable   int64    // event for which it was told that somebody has to promote the deployment

	// until reports when it is over, and why it cannot succeed any more; nil is at the end of
	// the deployment.
	until func(report.Report) (over bool, failure error)

	query.Progress
}

// deployable are the hosts that a revision would be deployed to, with the identity of the
// inventory that lists them. It fails where what the revision carries cannot be read.
func deployable(ctx context.Context, a *app.App, r report.Revision, inventory string) (hosts []string, identity string, err error) {
	all := session.Hosts(ctx, a, inventory)
	if hosts, err = all.Selected(r.Definition.InstanceGroup.Query); err != nil {
		return nil, "", exit.Invalid(err)
	}
	texts, err := a.Texts()
	if err != nil {
		return nil, "", err
	}
	for _, files := range []map[string]string{work.TaskFiles(r.Definition.Task), r.Definition.Deployment.VerifyFiles} {
		if _, err := texts.LoadAll(files); err != nil {
			return nil, "", fmt.Errorf("files of revision %d: %w", r.Number, err)
		}
	}
	return hosts, all.Identity(), nil
}

// recordWanted has what is wanted recorded, for whoever is at work on the environment.
func recordWanted(ctx context.Context, a *app.App, e *query.Environments, name string, wanted environment.Command, flags workFlags) ([]deploylog.Event, error) {
	if err := engines.Abandon(ctx, e.Log, flags.Engine.Abandon); err != nil {
		return nil, err
	}
	things, err := session.Things(ctx, a, flags.WorkerFlags, nil)
	if err != nil {
		return nil, err
	}
	e.Identify(things, nil)
	return e.Command(ctx, name, wanted)
}

// deployAndWait has a deployment started, and follows it.
func deployAndWait(ctx context.Context, command string, f *follower, wanted environment.Command, flags workFlags) error {
	if err := engines.Abandon(ctx, f.environments.Log, flags.Engine.Abandon); err != nil {
		return err
	}
	return f.run(ctx, command, wanted, flags)
}

// run has something recorded, and follows what comes of it.
func (f *follower) run(ctx context.Context, command string, wanted environment.Command, flags workFlags) error {
	a, e, name := f.app, f.environments, f.name
	if err := errors.Join(a.CheckParallelism(), flags.check()); err != nil {
		return err
	}
	screen := a.LiveEvents()
	f.screen = screen
	begun := false
	err := f.withControl(ctx, flags, func(ctx context.Context, control control, stop <-chan struct{}) error {
		events, err := e.Command(ctx, name, wanted)
		if err != nil {
			return err
		}
		if f.Report, err = reconcile.Get(e.Fold, name, (*environment.State).Report); err != nil {
			return err
		}
		id, after := startedBy(events), f.Report.Event
		if len(events) > 0 {
			after = events[0].Seq - 1
		}
		if id == "" && (len(events) == 0 || f.until != nil) && f.Report.Deployment != nil { // what is wanted is under way
			f.Deployment = *f.Report.Deployment
			id = f.Deployment.ID
		}
		begun = true
		screen.Begin(command, map[string]any{"environment": name, "deployment_id": id})
		if _, why := e.LeftOut(name, f.selected); why != nil && e.Controlled(name) { // else the controller here says it
			screen.Notice(why.Error())
		}
		if f.until != nil {
			f.Over, f.Failure = f.until(f.Report)
		}
		if id == "" || f.Over { // there was nothing to do
			f.Over = true
			return nil
		}
		return f.follow(ctx, stop, id, after, control)
	})
	if begun {
		err = f.ended(err)
	}
	if err := errors.Join(err, screen.Close()); err != nil {
		return err
	}
	return f.conclude()
}

// control does what is recorded until drain is closed, where nobody else does.
type control func(ctx context.Context, drain <-chan struct{}) error

// withControl has something done by who may control the environment itself. What is recorded
// by a server is left to its controllers.
func (f *follower) withControl(ctx context.Context, flags workFlags, do func(ctx context.Context, control control, stop <-chan struct{}) error) error {
	a, e, name := f.app, f.environments, f.name
	if a.Server() != "" {
		things, err := session.Things(ctx, a, flags.WorkerFlags, nil)
		if err != nil {
			return err
		}
		e.Identify(things, nil)
		return session.WithSignals(ctx, f.screen.Notices, func(ctx context.Context, stop <-chan struct{}) error {
			return do(ctx, waiting, stop)
		})
	}
	return session.WithWorkers(ctx, a, e.Log, flags.WorkerFlags, f.screen.Notices, func(ctx context.Context, workers *session.Workers, stop <-chan struct{}) error {
		f.inventory = workers.Hosts.Identity()
		if err := checkInventory(e, name, f.inventory); err != nil {
			return err
		}
		if err := flags.warnUnread(a, e, workers.Tasks, []string{name}); err != nil {
			return err
		}
		e.Identify(workers.Tasks.Things, nil)
		o := environments.Options{
			Options: reconcile.Options{Log: e.Log, Scope: reconcile.Only(name), Parallelism: a.Global.Parallelism, Now: a.Now},
			Tasks:   workers.Tasks, Inventory: workers.Hosts, Observer: output.Unrecorded{Events: f.screen}, ProbeEvery: flags.checkEvery,
		}
		return do(ctx, func(ctx context.Context, drain <-chan struct{}) error {
			o.Drain = drain
			return environments.NewController(o).Run(ctx)
		}, stop)
	})
}

// waiting is the control of who leaves it to others.
func waiting(ctx context.Context, drain <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-drain:
		return nil
	}
}

// checkInventory refuses to wait for what nobody would do: no controller is at work on an
// environment, and one with the inventory here leaves it alone.
func checkInventory(e *query.Environments, name, inventory string) error {
	why, err := reconcile.Get(e.Fold, name, func(s *environment.State) *reason.Reason { return s.OtherThan(inventory) })
	if err != nil || why == nil || e.Controlled(name) {
		return err
	}
	return fmt.Errorf("environment %s: nobody is at work on it, and it is left alone here: %s; what helps is %s", name, why.Message, why.Change)
}

// follow shows what happens behind an event until the deployment has ended, and the
// controller with it.
func (f *follower) follow(ctx context.Context, stop reconcile.Drain, id string, after int64, control control) error {
	draining, drain := stop.Context(ctx)
	// It ends with the controller and not with ctx, for what is recorded last is shown, too.
	controlling, ended := context.WithCancel(context.WithoutCancel(ctx))
	var telling sync.WaitGroup
	if len(f.hosts) > 0 {
		telling.Go(func() { f.tellWhy(controlling) })
	}
	var failed, unwatched error
	go func() {
		defer ended()
		failed = crash.Do("controlling "+f.name, func() error { return control(ctx, draining.Done()) })
	}()
	for p, err := range f.environments.Progress(controlling, f.name, id, after) {
		if unwatched = err; err != nil {
			break
		}
		f.take(p)
		for _, e := range p.Events {
			f.screen.Recorded(e)
		}
		f.screen.Table(p.Report, p.Deployment)
		f.tellPromotion()
		if f.Over {
			drain()
		}
	}
	drain()
	<-controlling.Done()
	telling.Wait()
	return errors.Join(failed, unwatched)
}

// take takes over how far it has come. What was waited for has been reached even if somebody
// takes it back before this is seen.
func (f *follower) take(p query.Progress) {
	was := f.Progress
	f.Progress = p
	switch {
	case f.until != nil && was.Over:
		f.Over, f.Failure = true, was.Failure
	case f.until != nil:
		f.Over, f.Failure = f.until(p.Report)
	}
}

// ended says what there is to say of a deployment that is not followed any more, and
// returns why it was not followed to its end.
func (f *follower) ended(err error) error {
	interrupted := errors.Is(err, runner.ErrInterrupted)
	switch {
	case f.Over && interrupted: // it ended all the same
		return nil
	case interrupted:
		f.screen.Notice(fmt.Sprintf("the deployment stays active: deployster env run %s goes on with it", f.name))
	case err == nil && !f.Over && f.until != nil:
		return fmt.Errorf("it is not over, but the controller has ended: deployster env run %s goes on", f.name)
	case err == nil && !f.Over:
		return fmt.Errorf("deployment %s is not at its end, but the controller is: deployster env run %s goes on", f.Deployment.ID, f.name)
	}
	return err
}

// conclude prints how the deployment ended.
func (f *follower) conclude() error {
	switch {
	case f.app.JSON():
		f.screen.End(map[string]any{"deployment_id": f.Deployment.ID, "deployment": f.Deployment, "report": f.Report})
		return f.Failure
	case f.Failure != nil && !f.screen.Live():
		return errors.Join(view.Environment(f.app.Out, f.Report, false, f.app.PlanOptions(f.app.Out)), f.Failure)
	case f.Failure != nil:
		return f.Failure
	case f.until != nil:
		return f.app.Printf("%s\n", view.Clean(f.done))
	case f.Report.Deleted:
		return f.app.Printf("environment %s is deleted\n", f.name)
	}
	with := ""
	if n := f.Deployment.Exceptions; n > 0 {
		with = " with " + phrase.Count(n, "exception")
		fmt.Fprintf(f.app.Err, "note: what failed is tried again, and max_failed lets it be: deployster env status %s\n", f.name)
	}
	if n := drifted(f.Report); n > 0 { // that is repaired after the end as during it, by whoever controls the environment
		fmt.Fprintf(f.app.Err, "note: on %s the task has drifted: a controller repairs it within the minimum, unless the definition says drift: report: deployster env run %s --until-idle\n", phrase.Count(n, "host"), f.name)
	}
	return f.app.Printf("deployment %s has finished%s: %s healthy\n", f.Deployment.ID, with, phrase.Count(f.Report.Healthy, "host"))
}

// drifted is on how many hosts a task is not as its revision wants it.
func drifted(r report.Report) (n int) {
	for _, h := range r.Hosts {
		if slices.ContainsFunc(h.Tasks, func(t report.TaskRow) bool { return t.Status == report.TaskDrifted }) {
			n++
		}
	}
	return n
}
