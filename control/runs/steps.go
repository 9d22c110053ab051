package runs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/protected"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// Step is a step of a pipeline on a host, whatever the revision.
type Step struct {
	Target deploylog.Target // of the host in its host group
	Event  string
}

func (s Step) pipeline() string {
	pipeline, _ := s.split()
	return pipeline
}

// split returns the pipeline and the host of the step.
func (s Step) split() (pipeline, host string) {
	path, _ := strings.CutPrefix(string(s.Target), "host/")
	pipeline, rest, _ := strings.Cut(path, "/")
	return pipeline, rest[strings.LastIndexByte(rest, '/')+1:]
}

// The details of a run of a step.
const (
	// DetailKeeps says that the step leaves on its host what its manifest no longer declares.
	DetailKeeps = "keeps"

	// DetailSteps are all steps that the pipeline has on the host, of the last one of a deployment there:
	// the target and the event of each, with spaces between.
	DetailSteps = "steps"
)

// MarshalText implements encoding.TextMarshaler.
func (s Step) MarshalText() ([]byte, error) { return []byte(string(s.Target) + " " + s.Event), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Step) UnmarshalText(text []byte) error {
	target, event, _ := strings.Cut(string(text), " ")
	s.Target, s.Event = deploylog.Target(target), event
	return nil
}

// Steps are steps as a detail of a run.
func Steps(all []Step) string {
	var words []string
	for _, s := range all {
		words = append(words, string(s.Target), s.Event)
	}
	return strings.Join(words, " ")
}

// StepMade is something that a step made on a host, and that is there as far as the log knows.
type StepMade struct {
	Name string // of the resource
	Step Step   // that made it
	Run  string
	At   time.Time

	Type           string
	Thing          string // identifies it (report.Same); "" is not known
	PreventDestroy bool
	Unremovable    bool
	Recorded       bool // it is known how to remove it, which older versions did not record

	First     Step  // that made it first
	Seq       int64 // of the event that says how it was made
	Protected *protected.Ref
}

// steps are what the steps of pipelines made on hosts, and what they declare there.
type steps struct {
	index *indexed
	runs  map[string]*stepRun // that have not ended
	hosts lazy[Host]
}

// stepRun is the run of a step.
type stepRun struct {
	Step     Step
	Host     string
	Removing bool
	Declares declared
	All      []string // the pipeline's steps on the host, see DetailSteps
}

// declared are resources by name, with what each may be (report.Same).
type declared struct {
	Things map[string][]string
	Keeps  bool // the step leaves there what it no longer declares
	Gone   bool // its pipeline no longer had the step on the host when it was there last
}

// Host is what the steps of pipelines made on a host, and what they declare there: each step what it
// declared when it was applied last.
type Host struct {
	Made     map[string]map[string][]StepMade // by pipeline and name
	Declared map[Step]declared
}

func newSteps(index *indexed) steps {
	return steps{index, map[string]*stepRun{}, newLazy[Host](underHost)}
}

func newHost() *Host {
	return &Host{map[string]map[string][]StepMade{}, map[Step]declared{}}
}

// Host returns what the steps of pipelines made on a host.
func (p *Pasts) Host(ctx context.Context, host string) (found *Host, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	err = p.sure(ctx, func() (err error) {
		found, err = p.steps.at(ctx, host)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading what pipelines made on host %s: %w", host, err)
	}
	return found, nil
}

// at is a copy of what is known of a host. A run that has not ended may have applied some of what it
// declares.
func (s *steps) at(ctx context.Context, host string) (*Host, error) {
	found := newHost()
	known, err := s.hosts.get(ctx, s.index, host)
	if err != nil {
		return nil, err
	}
	if known != nil {
		maps.Copy(found.Declared, known.Declared)
		for pipeline, named := range known.Made {
			found.Made[pipeline] = maps.Clone(named) // lists are replaced, never changed
		}
	}
	for _, run := range s.runs {
		if run.Host == host && !run.Removing {
			found.declare(run, false)
		}
	}
	return found, nil
}

// fold takes in an event of a run.
func (s *steps) fold(ctx context.Context, e deploylog.Event) error {
	kind, name, _ := parts(e.Target)
	switch run := s.runs[e.Deployment]; {
	case kind == "run" && e.Name == e.Target.Started():
		s.begin(e, name)
	case e.Name == EventResourceForgotten:
		return s.forget(ctx, name)
	case e.Name == pipelineDeleted && kind == "pipeline":
		return s.delete(ctx, name)
	case run == nil:
	case kind == "run":
		host, err := s.host(ctx, run.Host)
		if err != nil {
			return err
		}
		delete(s.runs, e.Deployment)
		if !run.Removing {
			host.declare(run, e.Name == e.Target.Succeeded())
		}
		if e.Name == e.Target.Succeeded() && len(run.All) > 0 {
			host.retire(run)
		}
	default:
		if resource, here := strings.CutSuffix(name, invoke.Placed("", run.Host)); here {
			return s.foldResource(ctx, run, kind, resource, e)
		}
	}
	return nil
}

// host returns a host that is to be changed.
func (s *steps) host(ctx context.Context, name string) (*Host, error) {
	h, err := s.hosts.get(ctx, s.index, name)
	if err != nil {
		return nil, err
	}
	if h == nil {
		h = newHost()
	}
	s.hosts.set(s.index, name, h)
	return h, nil
}

// begin notes the run of a step.
func (s *steps) begin(e deploylog.Event, name string) {
	if !strings.Contains(name, "@") {
		return // it is in no place
	}
	details := DataOf(e).Details
	step := Step{deploylog.Target(details["target"]), details["event"]}
	_, host := step.split()
	if step.Target.Kind() == "host" && host != "" && step.Event != "" && strings.HasSuffix(name, invoke.Placed("", host)) {
		s.runs[e.Deployment] = &stepRun{
			Step: step, Host: host, Removing: e.Revision == "",
			Declares: declared{Things: map[string][]string{}, Keeps: details[DetailKeeps] != ""}, All: strings.Fields(details[DetailSteps]),
		}
	}
}

// foldResource takes in what a run did with a resource.
func (s *steps) foldResource(ctx context.Context, run *stepRun, kind, resource string, e deploylog.Event) error {
	pipeline := run.Step.pipeline()
	host, err := s.host(ctx, run.Host)
	if err != nil {
		return err
	}
	switch {
	case e.Name == EventResourceMoved:
		host.move(run.Step, strings.TrimSuffix(DataOf(e).From, invoke.Placed("", run.Host)), resource)
	case e.Name == string(report.ResourceDestroyed):
		host.remove(pipeline, resource, DataOf(e).Thing)
	case e.Revision == "": // it is being removed
	case kind == "resource" && e.Name == string(report.ResourceResolved):
		thing := ""
		if bytes.Contains(e.Data, []byte(`"thing":`)) {
			thing = DataOf(e).Thing
		}
		run.Declares.Things[resource] = []string{thing}
	case kind == "action" && e.Name == e.Target.Started(), e.Name == string(report.ResourceAdopted):
		var made *Making
		if bytes.Contains(e.Data, []byte(`"made":`)) {
			made = DataOf(e).Made
		}
		if made != nil {
			run.Declares.Things[resource] = []string{made.Thing}
		}
		host.add(pipeline, madeIn(run, resource, made, e))
	}
	return nil
}

// madeIn is what a run made of a resource. An older version did not record how.
func madeIn(run *stepRun, resource string, made *Making, e deploylog.Event) StepMade {
	m := StepMade{Name: resource, Step: run.Step, First: run.Step, Run: e.Deployment, At: e.CreatedAt}
	if made != nil {
		m.Type, m.Thing, m.PreventDestroy, m.Unremovable = made.Type, made.Thing, made.PreventDestroy, made.Unremovable
		m.Recorded, m.Seq, m.Protected = true, e.Seq, made.Protected
	}
	return m
}

// add adds what was made. A later action of a resource says nothing new of it.
func (h *Host) add(pipeline string, m StepMade) {
	named := h.Made[pipeline]
	if named == nil {
		named = map[string][]StepMade{}
		h.Made[pipeline] = named
	}
	before := named[m.Name]
	if !m.Recorded && len(before) > 0 {
		return
	}
	for _, was := range before {
		if !report.Differ(was.Thing, m.Thing) {
			m.First = was.First
		}
	}
	named[m.Name] = append(others(before, m.Thing), m)
}

// others are those that are other things than one.
func others(list []StepMade, thing string) []StepMade {
	return slices.DeleteFunc(slices.Clone(list), func(m StepMade) bool { return !report.Differ(m.Thing, thing) })
}

// moves reports whether a step gives something that was made other names: it made that, in whichever stage.
func (s Step) moves(m StepMade) bool { return m.Step.Event == s.Event }

// move gives what a step made another name. Lists and declarations are replaced, never changed.
func (h *Host) move(step Step, from, to string) {
	named := h.Made[step.pipeline()]
	var stays, moves []StepMade
	for _, m := range named[from] {
		if step.moves(m) {
			m.Name = to
			moves = append(moves, m)
		} else {
			stays = append(stays, m)
		}
	}
	if len(moves) == 0 {
		return
	}
	named[to] = append(slices.Clone(named[to]), moves...)
	if named[from] = stays; len(stays) == 0 {
		delete(named, from)
	}
	for _, m := range moves {
		d := h.Declared[m.Step]
		if may, known := d.Things[from]; known {
			d.Things = maps.Clone(d.Things)
			d.Things[to] = append(slices.Clone(d.Things[to]), may...)
			delete(d.Things, from)
			h.Declared[m.Step] = d
		}
	}
}

func (h *Host) remove(pipeline, resource, thing string) {
	named := h.Made[pipeline]
	if rest := others(named[resource], thing); len(rest) > 0 {
		named[resource] = rest
		return
	}
	delete(named, resource)
}

// forget has what was made of a resource, by its name with its place, be nobody's.
func (s *steps) forget(ctx context.Context, placed string) error {
	i := strings.LastIndexByte(placed, '@')
	if i < 0 {
		return nil
	}
	known, err := s.hosts.get(ctx, s.index, placed[i+1:])
	if err != nil || known == nil {
		return err
	}
	for _, named := range known.Made {
		delete(named, placed[:i])
	}
	s.hosts.set(s.index, placed[i+1:], known)
	return nil
}

// pipelineDeleted is the event after which a pipeline of the name is another one.
const pipelineDeleted = "pipeline-deleted"

// delete has what a pipeline made be nobody's.
func (s *steps) delete(ctx context.Context, pipeline string) error {
	if err := s.hosts.all(ctx, s.index); err != nil {
		return err
	}
	for name, host := range s.hosts.known {
		if host == nil {
			continue
		}
		delete(host.Made, pipeline)
		maps.DeleteFunc(host.Declared, func(step Step, _ declared) bool { return step.pipeline() == pipeline })
		s.hosts.set(s.index, name, host)
	}
	return nil
}

// declare notes what a run declares. One that did not end well may have applied some of it, and what
// was declared before may still be there.
func (h *Host) declare(run *stepRun, well bool) {
	now := run.Declares
	if before, known := h.Declared[run.Step]; known && !well {
		things := map[string][]string{}
		for _, some := range []declared{before, now} {
			for name, may := range some.Things {
				things[name] = append(things[name], may...)
			}
		}
		for name, may := range things {
			slices.Sort(may)
			things[name] = slices.Compact(may)
		}
		now.Things = things
	}
	h.Declared[run.Step] = now
}

// retire has steps that the pipeline of a run no longer has on the host declare nothing there.
func (h *Host) retire(run *stepRun) {
	has := map[Step]bool{}
	for pair := range slices.Chunk(run.All, 2) {
		has[Step{deploylog.Target(pair[0]), pair[len(pair)-1]}] = true
	}
	for step, d := range h.Declared {
		if !has[step] && step.pipeline() == run.Step.pipeline() {
			h.Declared[step] = declared{Keeps: d.Keeps, Gone: true}
		}
	}
}

// find returns what was made under a name that is not known to be another thing.
func (h *Host) find(pipeline, resource, thing string) (m StepMade, found bool) {
	for _, m := range h.Made[pipeline][resource] {
		if !report.Differ(m.Thing, thing) {
			return m, true
		}
	}
	return m, false
}

// recordPlaced records what a step does with a resource on its host, and what it makes.
func (r *Run) recordPlaced(ctx context.Context, e deploylog.Event, p Data, of report.Event) error {
	made := of.Made()
	switch {
	case of.Kind == report.RunStarted:
		return errors.Join(appendEvent(ctx, r.o.Log, e, p), r.recordPlacedMoves(ctx))
	case of.Kind == report.ResourceDestroyed:
		p.Thing = of.Thing
	case made != nil && of.Kind == report.ActionStarted:
		return r.recordStepMade(ctx, e, p, of.Resource, made)
	case made != nil && of.Kind == report.ResourceResolved:
		p.Thing = made.Identity.Mark
		if err := appendEvent(ctx, r.o.Log, e, p); err != nil {
			return err
		}
		return r.recordAgain(ctx, e, of.Resource, made)
	}
	return appendEvent(ctx, r.o.Log, e, p)
}

// recordPlacedMoves records the names that the manifest of a step gives what the step made on its host.
func (r *Run) recordPlacedMoves(ctx context.Context) error {
	if r.o.Moved == nil {
		return nil
	}
	host, err := r.pasts().Host(ctx, r.o.Place)
	if err != nil {
		return err
	}
	named := host.Made[r.o.Step.pipeline()]
	for _, from := range slices.Sorted(maps.Keys(named)) {
		to := r.o.Moved(from)
		if to == from || len(named[to]) > 0 || !slices.ContainsFunc(named[from], r.o.Step.moves) {
			continue
		}
		before := invoke.Placed(from, r.o.Place)
		if err := r.recordMove(ctx, before, invoke.Placed(to, r.o.Place), Data{From: before}); err != nil {
			return err
		}
	}
	return nil
}

// recordStepMade appends an event that says what a step makes, and removes the protected document of
// what it made before.
func (r *Run) recordStepMade(ctx context.Context, e deploylog.Event, p Data, resource string, made *report.Made) (err error) {
	host, err := r.pasts().Host(ctx, r.o.Place)
	if err != nil {
		return err
	}
	if p.Made, err = r.made(made); err != nil {
		return fmt.Errorf("recording what is made of %s: %w", resource, err)
	}
	p.Made.Unremovable, p.Made.Thing = !made.Removable, made.Identity.Mark
	if err := appendEvent(ctx, r.o.Log, e, p); err != nil {
		return err
	}
	before, known := host.find(r.o.Step.pipeline(), resource, made.Identity.Mark)
	if known && before.Protected != nil && r.o.Protected != nil {
		_ = r.o.Protected.Remove(*before.Protected) // at worst it is removed with what nothing refers to
	}
	return nil
}

// recordAgain records how to remove what is there as configured, if an older version made it, which did not
// record that, or if the manifest now says otherwise whether it may be removed. What no step made is nobody's.
func (r *Run) recordAgain(ctx context.Context, e deploylog.Event, resource string, made *report.Made) error {
	host, err := r.pasts().Host(ctx, r.o.Place)
	if err != nil {
		return err
	}
	before, known := host.find(r.o.Step.pipeline(), resource, made.Identity.Mark)
	if !known || before.Recorded && before.PreventDestroy == made.PreventDestroy && before.Unremovable == !made.Removable {
		return nil
	}
	adopted := deploylog.Event{Deployment: r.o.ID, Target: e.Target, Revision: r.o.Revision, Name: string(report.ResourceAdopted), Attempt: e.Attempt}
	return r.recordStepMade(ctx, adopted, Data{From: before.Run}, resource, made)
}

// pasts are those of the log.
func (r *Run) pasts() *Pasts { return cmp.Or(r.o.Pasts, NewPasts(r.o.Log)) }

// Open is what it takes to remove something that a step made.
func (m StepMade) Open(ctx context.Context, log deploylog.Log, store *protected.Store) (u report.Undeclared, err error) {
	u = report.Undeclared{Name: m.Name, Run: m.Run, At: m.At}
	switch {
	case !m.Recorded:
		return u, fmt.Errorf("run %s of an older version made it, and did not record how to remove it", m.Run)
	case m.Unremovable:
		return u, fmt.Errorf("its type %s cannot remove it", m.Type)
	}
	var making *Making
	for e, err := range log.Read(ctx, deploylog.Filter{After: m.Seq - 1, Until: m.Seq}) {
		if err != nil {
			return u, fmt.Errorf("reading how run %s made %s: %w", m.Run, m.Name, err)
		}
		making = DataOf(e).Made
	}
	if making == nil {
		return u, errors.New("the log does not say how it was made")
	}
	u.Made, err = making.Open(store)
	u.Identity.Mark = m.Thing
	return u, err
}
