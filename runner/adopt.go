package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/graph"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/redact"
	"github.com/deployster-go/deployster/runner/report"
	"github.com/deployster-go/deployster/runner/taken"
)

// Adopt has things that exist be resources of the manifest from now on, as if a run had made
// them. Each is asked for its state: what is not there is not adopted. Nothing of them is
// changed, whether they are as configured or not. It refuses and fails as Apply does, but goes
// on after a failure.
func (r *Runner) Adopt(ctx context.Context, caller Caller, list []report.Adoption) ([]report.Adopted, error) {
	r.caller = caller
	defer r.invoker.Drain(ctx)
	a := r.adopting(list)
	result, err := r.execute(ctx, a.adopted, a.prepare, report.Skip{Code: report.ReasonRunRefused}, a.adoptAll)
	all := make([]report.Adopted, 0, len(a.resources))
	for i, res := range a.adopted() {
		if i >= len(result.Resources) {
			break // it could not even be begun
		}
		one := report.Adopted{ResourceResult: result.Resources[i], Differs: res.stale, Diff: res.differing}
		redact.Changes(r.secrets, one.Diff) // only now all secrets are known
		all = append(all, one)
	}
	return all, err
}

// adoption is an Adopt.
type adoption struct {
	*Runner
	resources []*resource         // that are adopted, or of which instances are, in graph order
	needs     map[string][]string // whose states a configuration needs
	needed    map[string]bool     // resources whose state some configuration needs
	taken     taken.Things
}

// adopting narrows the run down to what is adopted and what its configurations need.
func (r *Runner) adopting(list []report.Adoption) *adoption {
	a := &adoption{Runner: r, needs: map[string][]string{}, needed: map[string]bool{}}
	r.adoptions = map[string]*report.Adoption{}
	for _, one := range list {
		r.adoptions[one.Resource] = &one
		r.secrets.Add(one.Keep, one.Secrets)
	}
	taking := []*resource{}
	for _, m := range slices.Backward(r.spec.Manifest.Resources) {
		res := r.byNode[m.Name]
		res.adopted = r.adoptions[res.Name]
		res.excluded = len(a.of(res)) == 0
		if res.adopts = !a.needed[res.Name]; res.excluded && res.adopts {
			continue
		}
		taking = append(taking, res)
		if !res.excluded {
			a.resources = append(a.resources, res)
		}
		a.needs[res.Name] = r.needs(res)
		for _, name := range a.needs[res.Name] { // they stand before it in the graph's order
			a.needed[name] = true
		}
	}
	for _, t := range r.spec.Managed {
		one := orphan(t.Undeclared)
		one.config = one.Config
		a.taken.Add(t, r.known(one))
	}
	slices.Reverse(taking)
	slices.Reverse(a.resources)
	r.resources = taking
	return a
}

// of are the adoptions of a resource, or of its instances.
func (a *adoption) of(res *resource) (all []*report.Adoption) {
	if res.adopted != nil {
		all = append(all, res.adopted)
	}
	for _, name := range res.among(slices.Sorted(maps.Keys(a.adoptions))) {
		all = append(all, a.adoptions[name])
	}
	return all
}

// adopted are those that are adopted, with the instances in the place of what these are of.
func (a *adoption) adopted() []*resource {
	return slices.DeleteFunc(slices.Clone(each(a.resources)), func(res *resource) bool { return res.of != nil && res.adopted == nil })
}

// prepare does all that may refuse the Adopt before anything is asked for its state.
func (a *adoption) prepare(ctx context.Context) error {
	if err := a.Runner.prepare(ctx); err != nil {
		return err
	}
	for _, res := range a.resources {
		for _, one := range a.of(res) {
			if why := unadoptable(res, one); why != nil {
				a.refuse(ctx, res, why)
				break
			}
		}
	}
	return a.refusal()
}

// unadoptable is why a resource cannot be adopted, nil where it may be.
func unadoptable(res *resource, as *report.Adoption) error {
	problem := manifest.Problem{Position: res.Position, Path: "resources." + as.Resource}
	switch {
	case res.ReadOnly:
		problem.Message = `it is "readonly: true", so it is only ever observed, and nothing is to be adopted: leave that out if runs are to manage it`
	case as.ID != "" && !res.init.Adoptable:
		problem.Message = fmt.Sprintf(`its type %s finds nothing by an id: its init does not answer "adoptable": true; leave the id out, and what its configuration describes is adopted`, res.Type)
	case as.Keep != nil && !res.init.Keeps:
		problem.Message = fmt.Sprintf(`its type %s keeps nothing: its init does not answer "keeps": true; without a state to import, what its configuration describes is adopted`, res.Type)
	default:
		return nil
	}
	return &manifest.Error{Problems: []manifest.Problem{problem}}
}

func (a *adoption) adoptAll(ctx context.Context) error {
	a.spec.KeepGoing = true
	g := graph.New[string]()
	for _, res := range a.Runner.resources {
		g.Add(res.Name)
		for _, name := range a.needs[res.Name] {
			g.Add(res.Name, name)
		}
	}
	walk := func(ctx context.Context, visit func(*resource) error, skipped func(*resource, report.Skip)) {
		a.walkAlong(ctx, g, func(res *resource) error {
			if res.adopted == nil {
				// What cannot be found out is said of what needs it.
				s, err := guarded(ctx, a.Runner, res, "looking at", func(ctx context.Context, res *resource) (finding, error) {
					return a.look(ctx, res, a.needs[res.Name], true), nil
				})
				if len(a.of(res)) == 0 || res.expanded {
					return nil
				}
				if res.failure = errors.Join(err, s.err); res.failure == nil {
					res.failure = lacking("its for_each", res.Late.At(), s.lacks)
				}
			}
			_ = visit(res) // what needs it fails with its own reason
			return nil
		}, func(res *resource, why report.Skip) {
			if len(a.of(res)) > 0 {
				skipped(res, why)
			}
		})
	}
	return a.visitEach(ctx, walk, a.adoptOne)
}

// adoptOne looks for the thing, has kept what its type finds it by, and records that it is
// adopted: in this order, so that who dies in between can do so again.
func (a *adoption) adoptOne(ctx context.Context, res *resource) (report.Status, error) {
	if res.failure != nil {
		return report.Failed, res.failure
	}
	leave, err := a.enter(ctx, res)
	if err != nil {
		return report.Failed, err
	}
	defer leave()
	if err := a.emit(ctx, res.event(report.ResourceStarted)); err != nil {
		return report.Failed, err
	}
	if err := a.configure(res); err != nil {
		return report.Failed, err
	}
	if err := a.recall(ctx, res); err != nil {
		return report.Failed, err
	}
	if res.identity, err = a.identifyNow(res, nil); err != nil {
		return report.Failed, err
	}
	if res.took = nil; a.caller.Owners != nil {
		if err := a.take(ctx, res); err != nil {
			return report.Failed, err
		}
	}
	if res.adopted.ID != "" || res.adopted.Keep != nil {
		res.past.Kept, res.past.Secrets = res.adopted.Keep, res.adopted.Secrets
		a.learnKept(res, res.adopted.Keep)
	}
	out, err := a.observeAnswered(ctx, res)
	leaveThings := func() {}
	if err == nil {
		out, leaveThings, err = a.enterObserved(ctx, res, out)
	}
	if err != nil {
		return report.Failed, err
	}
	defer leaveThings()
	resolved := report.Event{Kind: report.ResourceResolved, Resource: res.Name, Attempt: 1, Status: report.Status(out.Status)}
	if out.Status != protocol.Valid && out.StaleState == nil {
		return report.Failed, errors.Join(a.emit(ctx, resolved), missing(res))
	}
	if res.state = out.State; out.Status != protocol.Valid {
		res.state, res.stale, res.differing = out.StaleState, true, a.differs(res, out)
		resolved.Differs = diff.Lines(res.differing)
	}
	if err := a.emit(ctx, resolved); err != nil {
		return report.Failed, err
	}
	kept := taken.Mark(res.Type, res.past.Kept)
	if res.adopted.Alike {
		kept = ""
	}
	if other, twice := a.taken.Find(res.Name, a.known(res), kept); twice {
		return report.Failed, other.Refuse()
	}
	if err := a.keepAdopted(ctx, res); err != nil {
		return report.Failed, err
	}
	adopted := report.Event{Kind: report.ResourceAdopted, Resource: res.Name, Attempt: 1, ID: res.past.ID, Took: res.took}
	return report.Unchanged, a.emit(ctx, adopted.With(a.made(res)))
}

// configure resolves the configuration of what is adopted, with the states of what it needs as
// they were found, as configured or not.
func (a *adoption) configure(res *resource) error {
	if lacks := a.without(a.Runner.needs(res)); len(lacks) > 0 {
		return lacking("its configuration", res.At(), lacks)
	}
	return a.resolve(res)
}

func lacking(what string, at manifest.Position, lacks []string) error {
	return failure.Because(report.ReasonUnknown, fmt.Errorf("%s (%s) needs the state of %s, which is not known: apply or adopt that first", what, at, strings.Join(lacks, " and of ")))
}

// missing says that there is nothing to adopt.
func missing(res *resource) error {
	switch {
	case res.adopted.ID != "":
		return fmt.Errorf("its type %s finds nothing by the id %q, so nothing was adopted: look whether that is the id that its type means", res.Type, res.adopted.ID)
	case res.adopted.Keep != nil:
		return fmt.Errorf("its type %s says that it does not exist any more, so nothing was adopted: an apply makes it", res.Type)
	case res.init.Adoptable:
		return fmt.Errorf("its type %s finds nothing by its configuration (%s), so nothing was adopted: give its id, if it exists; else an apply makes it", res.Type, res.At())
	default:
		return fmt.Errorf("what its configuration (%s) describes does not exist, so nothing was adopted: an apply makes it", res.At())
	}
}

// keepAdopted records what is kept of what is adopted, unless it was kept before.
func (a *adoption) keepAdopted(ctx context.Context, res *resource) error {
	keep := res.past.Kept
	switch {
	case res.adopted.ID != "" && len(keep) == 0:
		return &protocol.AnswerError{Path: "keep", Message: "must be there when something is adopted by its id: it would not be found again"}
	case len(keep)+len(res.recalled.Kept) == 0, diff.Identical(keep, res.recalled.Kept) && slices.EqualFunc(res.past.Secrets, res.recalled.Secrets, slices.Equal):
		return nil
	}
	return a.emit(ctx, a.keeping(res, keep))
}
