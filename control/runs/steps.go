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

	first     Step // that made it first
	seq       int64
	protected *protected.Ref
}

// steps are what the steps of pipelines made on hosts, and what they declare there.
type steps struct {
	runs  map[string]*stepRun // that have not ended
	hosts map[string]*Host
}

// stepRun is the run of a step.
type stepRun struct {
	step     Step
	host     string
	removing bool
	declares declared
	all      []string // the pipeline's steps on the host, see DetailSteps
}

// declared are resources by name, with what each may be (report.Same).
type declared struct {
	things map[string][]string
	keeps  bool // the step leaves there what it no longer declares
	gone   bool // its pipeline no longer had the step on the host when it was there last
}

// Host is what the steps of pipelines made on a host, and what they declare there: each step what it
// declared when it was applied last.
type Host struct {
	made     map[string]map[string][]StepMade // by pipeline and name
	declared map[Step]declared
}

func newSteps() steps { return steps{map[string]*stepRun{}, map[string]*Host{}} }

func newHost() *Host {
	return &Host{map[string]map[string][]StepMade{}, map[Step]declared{}}
}

// Host returns what the steps of pipelines made on a host.
func (p *Pasts) Host(ctx context.Context, host string) (*Host, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.catchUp(ctx); err != nil {
		return nil, fmt.Errorf("reading what pipelines made on host %s: %w", host, err)
	}
	return p.steps.at(host), nil
}

// at is a copy of what is known of a host. A run that has not ended may have applied some of what it
// declares.
func (s *steps) at(host string) *Host {
	found := newHost()
	if known := s.hosts[host]; known != nil {
		found.declared = maps.Clone(known.declared)
		for pipeline, named := range known.made {
			found.made[pipeline] = maps.Clone(named) // lists are replaced, never changed
		}
	}
	for _, run := range s.runs {
		if run.host == host && !run.removing {
			found.declare(run, false)
		}
	}
	return found
}

// fold takes in an event of a run.
func (s *steps) fold(e deploylog.Event) {
	kind, name, _ := parts(e.Target)
	switch run := s.runs[e.Deployment]; {
	case kind == "run" && e.Name == e.Target.Started():
		s.begin(e, name)
	case e.Name == EventResourceForgotten:
		s.forget(name)
	case e.Name == pipelineDeleted && kind == "pipeline":
		s.delete(name)
	case run == nil:
	case kind == "run":
		delete(s.runs, e.Deployment)
		if !run.removing {
			s.host(run.host).declare(run, e.Name == e.Target.Succeeded())
		}
		if e.Name == e.Target.Succeeded() && len(run.all) > 0 {
			s.host(run.host).retire(run)
		}
	default:
		if resource, here := strings.CutSuffix(name, invoke.Placed("", run.host)); here {
			s.foldResource(run, kind, resource, e)
		}
	}
}

func (s *steps) host(name string) *Host {
	if s.hosts[name] == nil {
		s.hosts[name] = newHost()
	}
	return s.hosts[name]
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
			step: step, host: host, removing: e.Revision == "",
			declares: declared{things: map[string][]string{}, keeps: details[DetailKeeps] != ""}, all: strings.Fields(details[DetailSteps]),
		}
	}
}

// foldResource takes in what a run did with a resource.
func (s *steps) foldResource(run *stepRun, kind, resource string, e deploylog.Event) {
	host, pipeline := s.host(run.host), run.step.pipeline()
	switch {
	case e.Name == string(report.ResourceDestroyed):
		host.remove(pipeline, resource, DataOf(e).Thing)
	case e.Revision == "": // it is being removed
	case kind == "resource" && e.Name == string(report.ResourceResolved):
		thing := ""
		if bytes.Contains(e.Data, []byte(`"thing":`)) {
			thing = DataOf(e).Thing
		}
		run.declares.things[resource] = []string{thing}
	case kind == "action" && e.Name == e.Target.Started(), e.Name == string(report.ResourceAdopted):
		var made *Making
		if bytes.Contains(e.Data, []byte(`"made":`)) {
			made = DataOf(e).Made
		}
		if made != nil {
			run.declares.things[resource] = []string{made.Thing}
		}
		host.add(pipeline, madeBy(run, resource, made, e))
	}
}

// madeBy is what a run made of a resource. An older version did not record how.
func madeBy(run *stepRun, resource string, made *Making, e deploylog.Event) StepMade {
	m := StepMade{Name: resource, Step: run.step, first: run.step, Run: e.Deployment, At: e.CreatedAt}
	if made != nil {
		m.Type, m.Thing, m.PreventDestroy, m.Unremovable = made.Type, made.Thing, made.PreventDestroy, made.Unremovable
		m.Recorded, m.seq, m.protected = true, e.Seq, made.Protected
	}
	return m
}

// add adds what was made. A later action of a resource says nothing new of it.
func (h *Host) add(pipeline string, m StepMade) {
	named := h.made[pipeline]
	if named == nil {
		named = map[string][]StepMade{}
		h.made[pipeline] = named
	}
	before := named[m.Name]
	if !m.Recorded && len(before) > 0 {
		return
	}
	for _, was := range before {
		if !report.Differ(was.Thing, m.Thing) {
			m.first = was.first
		}
	}
	named[m.Name] = append(others(before, m.Thing), m)
}

// others are those that are other things than one.
func others(list []StepMade, thing string) []StepMade {
	return slices.DeleteFunc(slices.Clone(list), func(m StepMade) bool { return !report.Differ(m.Thing, thing) })
}

func (h *Host) remove(pipeline, resource, thing string) {
	named := h.made[pipeline]
	if rest := others(named[resource], thing); len(rest) > 0 {
		named[resource] = rest
		return
	}
	delete(named, resource)
}

// forget has what was made of a resource, by its name with its place, be nobody's.
func (s *steps) forget(placed string) {
	i := strings.LastIndexByte(placed, '@')
	if i < 0 || s.hosts[placed[i+1:]] == nil {
		return
	}
	for _, named := range s.hosts[placed[i+1:]].made {
		delete(named, placed[:i])
	}
}

// pipelineDeleted is the event after which a pipeline of the name is another one.
const pipelineDeleted = "pipeline-deleted"

// delete has what a pipeline made be nobody's.
func (s *steps) delete(pipeline string) {
	for _, host := range s.hosts {
		delete(host.made, pipeline)
		maps.DeleteFunc(host.declared, func(step Step, _ declared) bool { return step.pipeline() == pipeline })
	}
}

// declare notes what a run declares. One that did not end well may have applied some of it, and what
// was declared before may still be there.
func (h *Host) declare(run *stepRun, well bool) {
	now := run.declares
	if before, known := h.declared[run.step]; known && !well {
		things := map[string][]string{}
		for _, some := range []declared{before, now} {
			for name, may := range some.things {
				things[name] = append(things[name], may...)
			}
		}
		for name, may := range things {
			slices.Sort(may)
			things[name] = slices.Compact(may)
		}
		now.things = things
	}
	h.declared[run.step] = now
}

// retire has steps that the pipeline of a run no longer has on the host declare nothing there.
func (h *Host) retire(run *stepRun) {
	has := map[Step]bool{}
	for pair := range slices.Chunk(run.all, 2) {
		has[Step{deploylog.Target(pair[0]), pair[len(pair)-1]}] = true
	}
	for step, d := range h.declared {
		if !has[step] && step.pipeline() == run.step.pipeline() {
			h.declared[step] = declared{keeps: d.keeps, gone: true}
		}
	}
}

// find returns what was made under a name that is not known to be another thing.
func (h *Host) find(pipeline, resource, thing string) (m StepMade, found bool) {
	for _, m := range h.made[pipeline][resource] {
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
	case of.Kind == report.ResourceDestroyed:
		p.Thing = of.Thing
	case made != nil && of.Kind == report.ActionStarted:
		return r.recordStepMade(ctx, e, p, of.Resource, made)
	case made != nil && of.Kind == report.ResourceResolved:
		p.Thing = made.Thing
		if err := appendEvent(ctx, r.o.Log, e, p); err != nil {
			return err
		}
		return r.recordAgain(ctx, e, of.Resource, made)
	}
	return appendEvent(ctx, r.o.Log, e, p)
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
	p.Made.Unremovable, p.Made.Thing = !made.Removable, made.Thing
	if err := appendEvent(ctx, r.o.Log, e, p); err != nil {
		return err
	}
	before, known := host.find(r.o.Step.pipeline(), resource, made.Thing)
	if known && before.protected != nil && r.o.Protected != nil {
		_ = r.o.Protected.Remove(*before.protected) // at worst it is removed with what nothing refers to
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
	before, known := host.find(r.o.Step.pipeline(), resource, made.Thing)
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
	for e, err := range log.Read(ctx, deploylog.Filter{After: m.seq - 1, Until: m.seq}) {
		if err != nil {
			return u, fmt.Errorf("reading how run %s made %s: %w", m.Run, m.Name, err)
		}
		making = DataOf(e).Made
	}
	if making == nil {
		return u, errors.New("the log does not say how it was made")
	}
	u.Made, err = making.Open(store)
	u.Thing = m.Thing
	return u, err
}
