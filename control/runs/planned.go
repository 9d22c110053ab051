package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/manifest/address"
	"github.com/deployster-go/deployster/runner/deviation"
	"github.com/deployster-go/deployster/runner/report"
)

// Planned is the plan that a run does, and what the log says of it: whether runs have done it before, and
// whether other runs have changed its resources since.
type Planned struct {
	ID    string // digest of a saved plan, or the run that planned
	Again bool   // it is done from its beginning, whatever was done of it

	// The last event of the log when the plan was made, or, if the plan was made with another log, when that was.
	After int64
	Since time.Time

	Resources []report.ResourcePlan // that it works on

	target deploylog.Target
	head   int64           // event up to which Read has looked
	same   map[string]bool // whether a run is of the same manifest
}

// Use is a run, as an error names it.
type Use struct {
	Run     string
	Command string
	At      time.Time
	By      string
}

func (u Use) String() string {
	text := fmt.Sprintf("run %s (%s, %s UTC", u.Run, u.Command, u.At.UTC().Format(time.DateTime))
	if u.By != "" {
		text += ", " + u.By
	}
	return text + ")"
}

func useOf(e deploylog.Event, details map[string]string) Use {
	by := details["user"]
	if host := details["host"]; by != "" && host != "" {
		by += "@" + host
	}
	return Use{Run: e.Deployment, Command: details["command"], At: e.CreatedAt, By: by}
}

// Change is what another run did to a resource of a plan since the plan was made.
type Change struct {
	Resource string
	Removed  bool
	By       Use
}

func (c Change) String() string {
	did := "changed"
	if c.Removed {
		did = "removed"
	}
	return fmt.Sprintf("%s has %s %s", c.By, did, c.Resource)
}

// AppliedError refuses a plan that a run has done wholly.
type AppliedError struct {
	By    Use
	Since *Change // what another run changed after the plan was made; nil is nothing
}

func (e *AppliedError) Error() string {
	text := "the plan was applied already, by " + e.By.String()
	if e.Since != nil {
		return text + ", and " + e.Since.String() + " since it was made: plan again"
	}
	return text + ": add --again to apply it once more, or plan again"
}

// OutdatedError refuses a plan because another run changed one of its resources after the plan was made.
type OutdatedError struct{ Since Change }

func (e *OutdatedError) Error() string {
	return "not as planned: " + e.Since.String() + " since the plan was made; plan again"
}

// LockPlan waits until no other run does the plan.
func LockPlan(ctx context.Context, log deploylog.Log, plan string, waiting func(string)) (unlock func(), err error) {
	name := "plan/" + plan
	release, err := log.TryLock(name)
	if errors.Is(err, deploylog.ErrLocked) {
		waiting(fmt.Sprintf("waits for another run that applies the same plan (%v)", err))
		release, err = log.Lock(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("locking the plan: %w", err)
	}
	return func() {
		release()
		if p, leaves := log.(deploylog.LockPruner); leaves {
			_ = p.PruneLock(name) // at worst it stays
		}
	}, nil
}

// Position is the last event of a log, 0 of an empty one.
func Position(ctx context.Context, log deploylog.Log) (seq int64, err error) {
	for e, err := range log.Read(ctx, deploylog.Filter{Last: 1}) {
		if err != nil {
			return 0, fmt.Errorf("reading the end of the log: %w", err)
		}
		seq = e.Seq
	}
	return seq, nil
}

// Progress is what runs have done of a plan.
type Progress struct {
	Done    map[string]string // the runs that have done a part wholly, by ResourcePlan.Node
	Removed map[string]bool   // the names of what was removed, to be made again or for good
}

// Read returns what runs have done of the plan. It fails with an
// *AppliedError where all was done, and with an *OutdatedError where another run has changed a resource. The
// caller holds the lock of the plan.
func (p *Planned) Read(ctx context.Context, log deploylog.Log, target deploylog.Target) (done *Progress, err error) {
	p.target, p.same = target, map[string]bool{}
	if p.head, err = Position(ctx, log); err != nil {
		return nil, err
	}
	var round []Use // runs that did the plan since it was last begun from its beginning
	own := map[string]bool{}
	for e, err := range log.Read(ctx, deploylog.Filter{Target: "run/", Name: target.Started(), After: p.After, Since: p.Since}) {
		if err != nil {
			return nil, fmt.Errorf("reading which runs applied the plan: %w", err)
		}
		d := DataOf(e)
		p.same[e.Deployment] = sameManifest(e.Target, target)
		if d.Details["plan"] != p.ID {
			continue
		}
		if own[e.Deployment] = true; d.Details["again"] != "" {
			round = nil
		}
		round = append(round, useOf(e, d.Details))
	}
	changed, err := p.changed(ctx, log, own)
	if err != nil {
		return nil, err
	}
	if p.Again {
		round = nil
	}
	done = &Progress{map[string]string{}, map[string]bool{}}
	for _, use := range round {
		whole, err := p.progress(ctx, log, use.Run, done)
		switch {
		case err != nil:
			return nil, err
		case whole:
			return nil, &AppliedError{use, changed}
		}
	}
	if changed != nil {
		return nil, &OutdatedError{*changed}
	}
	return done, nil
}

// progress notes what a run did of the plan, and reports whether it ended well.
func (p *Planned) progress(ctx context.Context, log deploylog.Log, run string, done *Progress) (whole bool, err error) {
	for e, err := range log.Read(ctx, deploylog.Filter{Deployment: run}) {
		if err != nil {
			return false, fmt.Errorf("reading what run %s did of the plan: %w", run, err)
		}
		kind, name, _ := parts(e.Target)
		switch {
		case e.Name == string(report.ResourceDestroyed):
			done.Removed[name] = true
		case e.Name != e.Target.Succeeded():
		case kind == "run":
			whole = true
		case kind == "resource":
			status := DataOf(e).Status
			done.Done[report.Node(name, status == report.Destroyed || status == report.Absent)] = run
		}
	}
	return whole, nil
}

// changed is what a run of the same manifest other than own ones changed of the resources of the plan first; nil is nothing.
func (p *Planned) changed(ctx context.Context, log deploylog.Log, own map[string]bool) (first *Change, err error) {
	names, late := map[string]bool{}, map[string]bool{}
	for _, r := range p.Resources {
		names[r.Name], late[r.Name] = true, r.Late
	}
	var event deploylog.Event
	for _, name := range changes() {
		for e, err := range log.Read(ctx, deploylog.Filter{Name: name, After: p.After, Since: p.Since}) {
			if err != nil {
				return nil, fmt.Errorf("reading what other runs changed: %w", err)
			}
			_, resource, _ := parts(e.Target)
			if own[e.Deployment] || !names[resource] && !late[address.Declared(resource)] || event.Seq > 0 && event.Seq < e.Seq {
				continue
			}
			c, err := p.change(ctx, log, resource, e)
			if err != nil {
				return nil, err
			}
			if c != nil {
				first, event = c, e
				break
			}
		}
	}
	return first, nil
}

// changes are the names of events that say that a run changed a resource, or found that it has to remove nothing.
func changes() []string {
	return []string{string(report.ActionStarted), string(report.ResourceDestroyed), string(report.ResourceFinished)}
}

// change is what an event says that another run of the same manifest did; nil is nothing.
func (p *Planned) change(ctx context.Context, log deploylog.Log, resource string, e deploylog.Event) (*Change, error) {
	removed := e.Name != string(report.ActionStarted)
	if e.Name == string(report.ResourceFinished) {
		if status := DataOf(e).Status; status != report.Destroyed && status != report.Absent {
			return nil, nil
		}
	}
	same, known := p.same[e.Deployment]
	if known && !same {
		return nil, nil
	}
	c := &Change{Resource: resource, Removed: removed, By: Use{Run: e.Deployment, At: e.CreatedAt}}
	for started, err := range log.Read(ctx, deploylog.Filter{Deployment: e.Deployment, Target: "run/", Name: p.target.Started()}) {
		if err != nil {
			return nil, fmt.Errorf("reading the start of run %s: %w", e.Deployment, err)
		}
		same = sameManifest(started.Target, p.target)
		c.By = useOf(started, DataOf(started).Details)
		c.Removed = removed || c.By.Command == "destroy"
	}
	if p.same[e.Deployment] = same; !same {
		return nil, nil
	}
	return c, nil
}

// sameManifest reports whether runs of two targets have a file of their manifests in common.
func sameManifest(a, b deploylog.Target) bool {
	files := func(t deploylog.Target) []string { return strings.Split(strings.TrimPrefix(string(t), "run/"), "+") }
	of := files(b)
	return slices.ContainsFunc(files(a), func(file string) bool { return slices.Contains(of, file) })
}

// asPlanned refuses a resource that another run has changed after Read. Its lock is held.
func (r *Run) asPlanned(ctx context.Context, resource string) error {
	p := r.o.Planned
	if p == nil {
		return nil
	}
	seen := *p
	seen.same = map[string]bool{r.o.ID: false}
	for _, target := range []deploylog.Target{actionTarget(resource, ""), resourceTarget(resource)} {
		for e, err := range r.o.Log.Read(ctx, deploylog.Filter{Target: target, After: p.head}) {
			if err != nil {
				return fmt.Errorf("reading what other runs changed of %s: %w", resource, err)
			}
			if !slices.Contains(changes(), e.Name) {
				continue
			}
			c, err := seen.change(ctx, r.o.Log, resource, e)
			if err != nil {
				return err
			}
			if c != nil {
				return &deviation.Error{Reason: c.String() + " since the plan was made"}
			}
		}
	}
	return nil
}
