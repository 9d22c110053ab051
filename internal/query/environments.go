package query

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/phrase"
)

// Environments answers questions about the environments of a log, as they were right after
// the event up to which it is followed.
type Environments struct {
	*environments.Environments
	Log  deploylog.Log
	last time.Time // of the newest event
}

// NewEnvironments knows nothing until it is told to Follow.
func NewEnvironments(log deploylog.Log, now func() time.Time) *Environments {
	e := &Environments{Log: log}
	e.Environments = environments.New(log, now, func(last deploylog.Event) { e.last = last.CreatedAt })
	return e
}

// Check refuses the name of an environment that there never was.
func (e *Environments) Check(name string) error {
	return e.Ask(name, func(*environment.State) error { return nil })
}

// EnvironmentRow is an environment in a list: its active revision, or the newest where
// none is active.
type EnvironmentRow struct {
	Name string `json:"environment"`
	report.Row
	Query string `json:"query"`
}

// List is the environments that are not deleted whose names begin with a prefix; where
// statuses are named, only those that have one of them.
func (e *Environments) List(prefix string, statuses ...report.RevisionStatus) []EnvironmentRow {
	rows := []EnvironmentRow{}
	for name, s := range e.All() {
		if !s.Exists() || !strings.HasPrefix(name, prefix) {
			continue
		}
		if row := listed(s); len(statuses) == 0 || slices.Contains(statuses, row.Status) {
			rows = append(rows, row)
		}
	}
	return rows
}

func listed(s *environment.State) EnvironmentRow {
	revisions := s.Revisions()
	shown := revisions[len(revisions)-1]
	if d, ok := s.ActiveDeployment(); ok {
		if r, err := s.Revision(d.Revision); err == nil {
			shown = r
		}
	}
	l := EnvironmentRow{Name: s.Name(), Query: shown.Definition.InstanceGroup.Query}
	for _, row := range s.Report().Rows {
		if row.Revision == shown.Number {
			l.Row = row
		}
	}
	return l
}

// OrphanRow is a task that a deleted environment left running.
type OrphanRow struct {
	Name string `json:"environment"`
	report.Orphan
	Cleaning bool `json:"cleaning,omitempty"` // it is being terminated
}

// Orphans are the tasks that environments left running when they were deleted, whose names
// begin with a prefix.
func (e *Environments) Orphans(prefix string) []OrphanRow {
	rows := []OrphanRow{}
	for name, s := range e.All() {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		for _, o := range s.Orphans() {
			rows = append(rows, OrphanRow{Name: name, Orphan: o})
		}
		if d, _ := s.ActiveDeployment(); !d.Clean {
			continue
		}
		for _, h := range s.Report().Hosts {
			for _, t := range h.Tasks {
				rows = append(rows, OrphanRow{name, report.Orphan{Host: h.Host, Revision: t.Revision, Target: t.Target, Lost: h.Lost, Seq: t.Seq}, true})
			}
		}
	}
	return rows
}

// Status is that of the environments of those names; none is all that are not deleted.
func (e *Environments) Status(names ...string) ([]report.Report, error) {
	if len(names) == 0 {
		names = e.Present()
	}
	reports := []report.Report{}
	for _, name := range names {
		r, err := reconcile.Get(e.Fold, name, (*environment.State).Report)
		if err != nil {
			return nil, err
		}
		reports = append(reports, e.WithAsked(r))
	}
	return reports, nil
}

// WithAsked adds to the status of an environment the revision that waits to be accepted.
func (e *Environments) WithAsked(r report.Report) report.Report {
	_ = e.Ask(r.Environment, func(s *environment.State) error { // there is one
		if a, waits := s.Asked(e.Now()); waits {
			r.Asked = &a
		}
		return nil
	})
	return r
}

// Shown is Revision, also of one that waits to be accepted.
func (e *Environments) Shown(name string, number int) (r report.Revision, asked *report.Asked, err error) {
	waits := e.WithAsked(report.Report{Environment: name}).Asked
	if waits == nil || waits.Revision != number {
		r, err = e.Revision(name, number)
		return r, waits, err
	}
	return report.Revision{Number: number, Base: waits.Base, By: waits.By, Seq: waits.Seq, Definition: waits.Definition, Bound: true}, waits, nil
}

// Revision is one of an environment; 0 is the newest.
func (e *Environments) Revision(name string, number int) (r report.Revision, err error) {
	err = e.Ask(name, func(s *environment.State) error {
		if number == 0 {
			number = len(s.Revisions())
		}
		r, err = s.Revision(number)
		return err
	})
	return r, err
}

// LastGood is the revision of an environment to go back to where none is named.
func (e *Environments) LastGood(name string) (r report.Revision, err error) {
	err = e.Ask(name, func(s *environment.State) error {
		r, err = s.LastGood()
		return err
	})
	return r, err
}

// Explain returns why an environment, or one of its tasks, is not in its desired state;
// at present, that may be because nobody works on it.
func (e *Environments) Explain(t deploylog.Target, inventory string, present bool) (reasons []reason.Reason, err error) {
	name, _ := record.NameOf(t)
	reasons = []reason.Reason{}
	err = e.Ask(name, func(s *environment.State) error {
		if !concerns(s, t) {
			return unknown("there is no %s: deployster env status %s --hosts shows what there is", t, name)
		}
		when := e.last
		if present {
			when = e.Now()
		}
		if present && !s.Idle() {
			why, controlled := s.OtherThan(inventory), e.Controlled(name)
			if !controlled && why != nil {
				reasons = append(reasons, *why)
			} else if !controlled {
				reasons = append(reasons, s.NoController(e.Others(name)))
			} else if silent := e.Silent(name); silent != "" {
				reasons = append(reasons, s.SilentController(silent))
			}
		}
		reasons = append(reasons, s.Explain(t, when)...)
		return nil
	})
	return reasons, err
}

// Elsewhere is why an environment that nobody controls would be left alone by who has an
// inventory; nil where it would not.
func (e *Environments) Elsewhere(name, inventory string) (why *reason.Reason) {
	if !e.Controlled(name) {
		_ = e.Ask(name, func(s *environment.State) error { // of one that there is not nothing is left alone
			if s.Exists() {
				why = s.OtherThan(inventory)
			}
			return nil
		})
	}
	return why
}

// concerns reports whether a target is the environment or one of its tasks, which
// may not have started yet.
func concerns(s *environment.State, t deploylog.Target) bool {
	if t == record.Target(s.Name()) {
		return true
	}
	d, _ := s.ActiveDeployment()
	for _, h := range s.Report().Hosts {
		named := t == record.TaskTarget(s.Name(), d.Revision, h.Host) // also where it shares the task of an earlier one
		if h.Desired && (named || t == s.TaskTarget(d.Revision, h.Host)) {
			return true
		}
		for _, task := range h.Tasks {
			if t == deploylog.Target(task.Target) || t == record.TaskTarget(s.Name(), task.Revision, h.Host) {
				return true
			}
		}
	}
	return false
}

// Differences is how two revisions of an environment differ.
type Differences struct {
	Before, After report.Revision
	Definition    []definition.Difference
	Manifest      string // a unified diff of the texts, also of what they include and of what verifies steps; "" where they are the same
}

// Differences compares the definitions of two revisions, and the files that they carry.
func (e *Environments) Differences(name string, before, after int, kept work.Texts) (d Differences, err error) {
	if d.Before, _, err = e.Shown(name, before); err != nil {
		return d, err
	}
	if d.After, _, err = e.Shown(name, after); err != nil {
		return d, err
	}
	d.Definition = append([]definition.Difference{}, definition.Diff(d.Before.Definition, d.After.Definition)...)
	from, to := d.Before.Definition.Task, d.After.Definition.Task
	was, is := carried{fmt.Sprintf("%s:%d", name, d.Before.Number), map[string]string{}}, carried{fmt.Sprintf("%s:%d", name, d.After.Number), map[string]string{}}
	if from.Includes != nil && to.Includes != nil {
		maps.Copy(was.files, from.Includes)
		maps.Copy(is.files, to.Includes)
	}
	manifest, err := textDifference(kept, text{was.revision, from.Manifest, from.Digest}, text{is.revision, to.Manifest, to.Digest})
	if err != nil {
		return d, err
	}
	included, err := was.differences(kept, is)
	if err != nil {
		return d, err
	}
	was.files[from.Manifest], is.files[to.Manifest] = from.Digest, to.Digest
	verified, verifies := d.Before.Definition.Deployment.VerifyFiles, d.After.Definition.Deployment.VerifyFiles
	shown := func(file, _ string) bool {
		return was.files[file] == verified[file] && is.files[file] == verifies[file]
	}
	had, has := carried{was.revision, map[string]string{}}, carried{is.revision, map[string]string{}}
	maps.Copy(had.files, verified)
	maps.Copy(has.files, verifies)
	maps.DeleteFunc(had.files, shown)
	maps.DeleteFunc(has.files, shown)
	verifying, err := had.differences(kept, has)
	if d.Manifest = manifest + included + verifying; d.Manifest != "" {
		d.Manifest = kept.Masking(was.files, is.files, verified, verifies)(d.Manifest)
	}
	return d, err
}

// Progress is how far a deployment has come that is followed. One that is stuck may be
// rolled back automatically, and the same revision may be deployed again: then it is that
// deployment that is followed to its end.
type Progress struct {
	Events     []deploylog.Event // of the environment, since the last progress
	Report     report.Report
	Deployment report.Deployment
	Over       bool
	Failure    error // why it cannot succeed any more
}

// Progress follows a deployment: it yields its progress whenever there are events of its
// environment, from those behind after, whoever works on it. How it was right before hosts
// were uncordoned is yielded in any case, for that takes back what is reached with them. It
// goes on beyond the end of the deployment until ctx ends, and with what has happened until
// then.
func (e *Environments) Progress(ctx context.Context, name, deployment string, after int64) iter.Seq2[Progress, error] {
	return func(yield func(Progress, error) bool) {
		reading := context.WithoutCancel(ctx)
		for news, err := range e.Log.Watch(ctx, deploylog.Filter{After: after}) {
			if err != nil {
				yield(Progress{}, fmt.Errorf("watching the log: %w", err))
				return
			}
			if of, _ := record.NameOf(news.Target); of != name || news.Seq <= after {
				continue
			}
			p, err := e.progress(reading, name, deployment, after)
			if after = e.Head(); !yield(p, err) || err != nil {
				return
			}
		}
		for followed := int64(-1); followed < e.Head(); {
			followed = e.Head()
			p, err := e.progress(reading, name, deployment, after)
			if after = e.Head(); err != nil || len(p.Events) > 0 {
				if !yield(p, err) || err != nil {
					return
				}
			}
		}
	}
}

// progress is that with the newest events behind after, as far as before hosts are uncordoned.
func (e *Environments) progress(ctx context.Context, name, deployment string, after int64) (p Progress, err error) {
	until, err := e.beforeUncordoned(ctx, name)
	if err != nil {
		return p, err
	}
	if err := e.Follow(ctx, until); err != nil {
		return p, err
	}
	for event, err := range e.Log.Read(ctx, deploylog.Filter{After: after, Until: e.Head()}) {
		if err != nil {
			return p, err
		}
		if of, _ := record.NameOf(event.Target); of == name {
			p.Events = append(p.Events, event)
		}
	}
	err = e.Ask(name, func(s *environment.State) error {
		p.Report = s.Report()
		p.Deployment, p.Over, p.Failure = outcome(s, deployment)
		return nil
	})
	return p, err
}

// beforeUncordoned is the event before the next that uncordons hosts and is not followed yet,
// where there are others before it; 0 where there is none.
func (e *Environments) beforeUncordoned(ctx context.Context, name string) (int64, error) {
	next := deploylog.Filter{After: e.Head() + 1, Target: record.Target(name), Name: record.HostsUncordoned}
	for event, err := range e.Log.Read(ctx, next) {
		return event.Seq - 1, err
	}
	return 0, nil
}

// hostsOf are the hosts of tasks that were left running, some of many.
func hostsOf(orphans []report.Orphan) (hosts []string) {
	const most = 10
	for _, o := range orphans {
		if !slices.Contains(hosts, o.Host) {
			hosts = append(hosts, o.Host)
		}
	}
	slices.Sort(hosts)
	if n := len(hosts) - most; n > 0 {
		hosts = append(hosts[:most], fmt.Sprintf("%d more hosts", n))
	}
	return hosts
}

// deleted is why a deployment of an environment that is deleted by now has not come to what
// was wanted; nil where that was the deletion.
func deleted(s *environment.State, d report.Deployment) error {
	left := s.Orphans()
	switch {
	case d.Clean && len(left) > 0:
		return fmt.Errorf("%s of environment %s could not be terminated, and is left running on %s: deployster env clean %s tries again",
			phrase.Count(len(left), "task"), s.Name(), strings.Join(hostsOf(left), ", "), s.Name())
	case d.Kind == record.ByDelete && d.Status == report.DeploymentFinished:
		return nil
	case d.Kind == record.ByDelete:
		return fmt.Errorf("environment %s is deleted: %s", s.Name(), d.Cause)
	}
	return fmt.Errorf("environment %s was deleted while it was followed", s.Name())
}

// outcome is the deployment of an ID, or what took its place with the same revision or as
// its automatic rollback, and how it has ended.
func outcome(s *environment.State, id string) (d report.Deployment, over bool, failure error) {
	all := s.Deployments()
	i := slices.IndexFunc(all, func(d report.Deployment) bool { return d.ID == id })
	switch {
	case i < 0:
		return d, true, nil
	case !s.Exists():
		return all[i], true, deleted(s, all[i])
	}
	for d = all[i]; d.Status == report.DeploymentSuperseded; {
		next := report.Successor(all, d.ID)
		switch {
		case next.Automatic:
			failure = fmt.Errorf("deployment %s was stuck, and was rolled back to revision %d", d.ID, next.Revision)
		case !next.Continues(d):
			return d, true, fmt.Errorf("deployment %s has not finished: %s", d.ID, d.Cause)
		}
		d = next
	}
	if d.Status == report.DeploymentStuck {
		remedy := ""
		if back := s.RollbackCommand(); back != "" {
			remedy = ", " + back + " goes back to an earlier revision"
		} else if d.Kind == record.ByDelete {
			remedy = ", deployster env delete " + s.Name() + " --leave-tasks leaves its tasks running, unmanaged"
		}
		if d.Code == reason.NotVerified {
			return d, true, fmt.Errorf("deployment %s is stuck: its step could not be verified: deployster env promote %s goes on all the same, deployster env deploy %s --revision %d verifies it anew, another test is a new revision%s",
				d.ID, s.Name(), s.Name(), d.Revision, remedy)
		}
		return d, true, fmt.Errorf("deployment %s is stuck: deployster env run %s retries it%s", d.ID, s.Name(), remedy)
	}
	if s.AwaitsHosts() {
		return d, true, fmt.Errorf("deployment %s has not finished: the query %s selects no hosts; it goes on when there is one, with deployster env run %s", d.ID, s.Query(), s.Name())
	}
	return d, d.Status == report.DeploymentFinished, failure
}
