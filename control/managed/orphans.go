package managed

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/protected"
	"github.com/deployster-go/deployster/manifest/address"
	"github.com/deployster-go/deployster/runner/report"
)

// Orphans finds out which orphans a run removes, and whether each still is one when it has its turn. Its methods
// are safe for concurrent use.
type Orphans struct {
	Log       deploylog.Log
	Question  Question
	Protected *protected.Store // may be nil: nothing that is secret can be removed
	Engine    string           // of the run, as identities name it
	EngineID  string           // the id of that engine, if it is on another machine; "" is not known
	Targets   []string         // only these, as NAME or MANIFEST#NAME, with what depends on them; none is all
	Planned   []string         // those that a plan showed, as MANIFEST#NAME, and no others; nil is that there was none

	mu      sync.Mutex
	history *runs.History
	known   *Runs
}

// Left is an orphan that stays.
type Left struct {
	*Thing
	Why string // with the way out
}

// Select returns what is to be removed, with all that this takes, and what is not.
func (o *Orphans) Select(ctx context.Context) (remove []report.Undeclared, stays []Left, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.history, err = runs.ReadHistory(ctx, o.Log, o.Question.Identify); err != nil {
		return nil, nil, err
	}
	if o.known, err = ReadRuns(ctx, o.Log); err != nil {
		return nil, nil, err
	}
	q := o.Question
	q.Orphans = true
	things, err := Of(ctx, o.Log, o.history, q, o.known)
	if err != nil {
		return nil, nil, err
	}
	if things, err = o.targeted(things); err != nil {
		return nil, nil, err
	}
	if things, err = o.planned(things); err != nil {
		return nil, nil, err
	}
	declared := o.declarations().Remembering()
	for _, t := range things {
		u := undeclared(t.Thing)
		why, err := o.why(ctx, declared, t)
		if err != nil {
			return nil, nil, err
		}
		if why == "" {
			if u, err = o.open(ctx, declared, t.Thing, u); err != nil {
				why = fmt.Sprintf("what it takes to remove it is not known any more (%v): remove it by hand, then \"deployster state forget %s\"", err, u.Reference())
			}
		}
		if why != "" {
			stays = append(stays, Left{t, why})
		} else {
			remove = append(remove, u)
		}
	}
	return remove, stays, nil
}

func (o *Orphans) declarations() runs.Declarations {
	return runs.Declarations{Log: o.Log, Of: o.Question.Here}
}

// undeclared is a thing of another manifest, without what it takes to remove it.
func undeclared(t *runs.Thing) report.Undeclared {
	u, of := t.Undeclared(), t.Owner()
	u.Owner = &report.OwnedBy{Name: of.Name, Files: of.Manifest, Workspace: of.Workspace, Machine: of.Machine}
	return u
}

// open finds out what it takes to remove a thing.
func (o *Orphans) open(ctx context.Context, declared runs.Declarations, t *runs.Thing, u report.Undeclared) (report.Undeclared, error) {
	made, err := t.Open(o.Protected)
	if err != nil {
		return u, err
	}
	identity := u.Identity
	if u.Made, u.Identity = made, identity; t.Deposed && made.PreventDestroy {
		now, err := declared.Declared(ctx, t)
		if err != nil {
			return u, err
		}
		u.PreventDestroy = !now // what is declared now was asked when it came to be another thing
	}
	return u, nil
}

// Stays implements runner.Caller.Stays.
func (o *Orphans) Stays(ctx context.Context, u report.Undeclared) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.history.Update(ctx); err != nil {
		return err
	}
	var t *runs.Thing
	named, err := o.history.Named(ctx, u.Name)
	if err != nil {
		return err
	}
	for _, one := range named {
		now := undeclared(one)
		if now.ID == u.ID && now.Run == u.Run && now.Deposed == u.Deposed && now.Identity.Key == u.Identity.Key && now.Owner.Workspace == u.Owner.Workspace && slices.Equal(now.Owner.Files, u.Owner.Files) {
			t = one
		}
	}
	if t == nil {
		return report.Skip{Code: report.ReasonOwned, Text: "a run changed, took or removed it since it was listed, so it stays"}
	}
	declared := o.declarations()
	declared.Sent = o.known.sent[t.Run]
	one, err := standing(ctx, declared, t, o.known)
	if err != nil {
		return err
	}
	if !one.Standing.Orphan() {
		return report.Skip{Code: report.ReasonOwned, Text: t.Owner().String() + " declares it again, so it stays"}
	}
	why, err := o.why(ctx, declared, one)
	if err == nil && why != "" {
		return report.Skip{Code: report.ReasonOwned, Text: why}
	}
	return err
}

// why is why an orphan stays, with the way out; "" is that it is removed.
func (o *Orphans) why(ctx context.Context, declared runs.Declarations, t *Thing) (string, error) {
	u := undeclared(t.Thing)
	forget := fmt.Sprintf("or remove it by hand, then \"deployster state forget %s\"", u.Reference())
	made := u.Identity.Parts[report.PartEngine]
	switch {
	case u.Identity.Elsewhere(report.Identity{Parts: map[string]string{report.PartEngine: o.Engine, report.PartEngineID: o.EngineID}}):
		return fmt.Sprintf("run %s made it on the engine of %s, and this is that of %s: run this with that engine, %s", t.Run, made, o.Engine, forget), nil
	case !t.Here(o.Question.Here) && (made == "" || made == thisMachine):
		return fmt.Sprintf("run %s made it on another machine: run this there, %s", t.Run, forget), nil
	case t.RenamedTo != "" && !o.names(t.Thing):
		return fmt.Sprintf("%s declares %s, of the same type, so it may be %s under another name: apply that, which takes it over; --target %s removes it all the same", t.RenamedTo, t.Name, t.Owner(), u.Target()), nil
	case t.Identity == nil || t.Identity.Key == "":
		return "", nil
	}
	if perhaps, err := o.perhaps(ctx, declared, t); err != nil || perhaps != "" {
		return perhaps, err
	}
	var others []*runs.Thing
	for _, key := range slices.Concat(t.Identity.Known(), t.Identity.Lost) {
		some, err := o.history.Others(ctx, runs.Owner{}, key)
		if err != nil {
			return "", err
		}
		others = append(others, some...)
	}
	for _, other := range others {
		if other.Deposed || other.Run == t.Run && other.Name == t.Name && other.ID == t.ID {
			continue
		}
		by := declared
		by.Sent = o.known.sent[other.Run]
		declares, err := by.Declared(ctx, other)
		if err != nil {
			return "", err
		}
		if declares {
			return fmt.Sprintf("%s manages the same thing, as its resource %s: \"deployster state forget %s\" has it be of that alone", other.Owner(), other.Name, u.Reference()), nil
		}
	}
	return "", nil
}

// perhaps says which resource may be an orphan under another name, although no run found that out; "" is none.
func (o *Orphans) perhaps(ctx context.Context, declared runs.Declarations, t *Thing) (string, error) {
	if t.Deposed || o.names(t.Thing) {
		return "", nil
	}
	file, resource, err := declared.Perhaps(t.Thing, func(file, resource string) (bool, error) {
		made, err := o.history.Named(ctx, resource)
		return slices.ContainsFunc(made, func(other *runs.Thing) bool {
			return !other.Claimed && !other.Deposed && other.Identity != nil && other.Identity.Key != t.Identity.Key && IsOf(other, file, o.Question.Here.Workspace)
		}), err
	})
	if file == "" || err != nil {
		return "", err
	}
	if below, err := filepath.Rel(o.Question.Here.Workspace, file); err == nil && filepath.IsLocal(below) {
		file = below
	}
	u, from := undeclared(t.Thing), t.Name
	if !IsOf(t.Thing, file, o.Question.Here.Workspace) {
		from = u.Target()
	}
	return fmt.Sprintf("%s declares %s, which may be the same under another name: say so there, with moved: [{from: %q, to: %q}], and apply that; --target %s removes it all the same",
		file, resource, from, resource, u.Target()), nil
}

// thisMachine is how identities name the engine of the machine on which a run was.
const thisMachine = "this machine"

// names reports whether a target is this thing, and no other one on which it depends.
func (o *Orphans) names(t *runs.Thing) bool {
	return slices.ContainsFunc(o.Targets, func(target string) bool { return o.isTarget(target, t) })
}

func (o *Orphans) isTarget(target string, t *runs.Thing) bool {
	if t.Name == target {
		return true
	}
	manifest, is := strings.CutSuffix(target, "#"+t.Name)
	return is && (IsOf(t, manifest, o.Question.Here.Workspace) || t.Owner().String() == manifest)
}

// UnknownTargetError is a target that is no orphan.
type UnknownTargetError struct{ Target string }

func (e *UnknownTargetError) Error() string {
	return fmt.Sprintf("--target %s: no orphan has this name; \"deployster list --orphans\" lists them, and MANIFEST#NAME tells those of one name apart", e.Target)
}

// targeted are those of things that the targets name, with what depends on these.
func (o *Orphans) targeted(things []*Thing) (some []*Thing, err error) {
	if len(o.Targets) == 0 {
		return things, nil
	}
	taken := map[*Thing]bool{}
	for _, target := range o.Targets {
		found := false
		for _, t := range things {
			if o.isTarget(target, t.Thing) {
				taken[t], found = true, true
			}
		}
		if !found {
			return nil, &UnknownTargetError{target}
		}
	}
	for more := true; more; {
		more = false
		for _, t := range things {
			if !taken[t] && slices.ContainsFunc(things, func(on *Thing) bool { return taken[on] && dependsOn(t, on) }) {
				taken[t], more = true, true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(things), func(t *Thing) bool { return !taken[t] }), nil
}

// planned are those of things that a plan showed. It fails where another one depends on them by now, which would be
// left without what it needs.
func (o *Orphans) planned(things []*Thing) (some []*Thing, err error) {
	if o.Planned == nil {
		return things, nil
	}
	for _, t := range things {
		if slices.Contains(o.Planned, undeclared(t.Thing).Target()) {
			some = append(some, t)
		}
	}
	for _, t := range things {
		for _, on := range some {
			if !slices.Contains(some, t) && dependsOn(t, on) {
				return nil, fmt.Errorf("%s became an orphan after the plan, and depends on %s: plan again", undeclared(t.Thing).Target(), undeclared(on.Thing).Target())
			}
		}
	}
	return some, nil
}

// dependsOn reports whether a thing depended on another one when it was made.
func dependsOn(t, on *Thing) bool {
	return ownerOf(t.Owner()) == ownerOf(on.Owner()) &&
		(slices.Contains(t.DependsOn, on.Name) || slices.Contains(t.DependsOn, address.Declared(on.Name)))
}
