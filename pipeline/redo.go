package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/walk"
)

// Repair does the steps of a stage again on hosts that failed there within the budget of
// their group, with the revision that finished the stage last.
type Repair struct {
	Stage      string
	Hosts      []string // none is all that failed
	ID         string   // of the fresh deployment
	By, Reason string
}

// Rerun does a stage again with the revision that finished it last. It brings a revision that
// has finished into a stage that was added since.
type Rerun struct {
	Stage      string
	Revision   string
	Carries    record.Files // what a stage that was added applies; nil is nothing
	Bound      bool         // as of Release
	ID         string       // of the fresh deployment
	By, Reason string
}

// doAgain makes a deployment that has just been registered one that does a stage of a
// revision again, as it was done.
func (s *State) doAgain(d *deployment.Deployment, r *record.RedoInfo) {
	s.revisions[d.Order-1].Redo = r
	i, bound := s.indexOf(r.Of), d.Bound
	d.Again(r, s.visits[r.Target].ending, i+1, i >= 0 && s.revisions[i].Rollback != nil)
	if i >= 0 {
		carries := d.Carries
		s.inherit(d, i)
		if r.First { // it is as if the revision had been released with the stage
			s.adopt(d, carries, bound)
		}
	}
	d.Bring(s.manifests, s.taken, s.own) // what came when it had ended
}

// inherit has a deployment do its steps as another one of its revision did.
func (s *State) inherit(d *deployment.Deployment, of int) {
	in := s.revisions[of].inputs
	if original := s.byID[s.revisions[of].Deployment]; original != nil {
		in = original.Inputs()
	}
	first := s.first(of)
	d.Inherit(in, s.revisions[first].Deployment, first+1)
	s.revisions[d.Order-1].Bound = d.Bound
}

// indexOf is the index of the registration of a deployment; negative is none.
func (s *State) indexOf(deployment string) int {
	return slices.IndexFunc(s.revisions, func(r Registration) bool { return r.Deployment == deployment })
}

// rolledBackTo reports whether a pause came with a rollback to what a deployment released.
func (s *State) rolledBackTo(original string, p PauseInfo) bool {
	return slices.ContainsFunc(s.revisions, func(r Registration) bool {
		return r.Rollback != nil && r.Deployment == p.deployment && r.Rollback.Original == original
	})
}

// unmended are the marks of a host, none where the deployment failed there and finished the
// stage, and the host has got since what it was to get, or something that came later.
func (s *State) unmended(d *deployment.Deployment, stage int, host deploylog.Target, m *record.Marks) *record.Marks {
	v := s.visits[s.layout.Stages[stage].Target]
	_, failed := v.ending.Failed[host]
	if m.Has(record.HostFailed) && !failed && slices.Contains(v.finished, d.Order-1) {
		return nil
	}
	return m
}

// excludes reports whether a deployment keeps another one out of a batch. Those that do the
// same again are of one revision, and only kept out of each other's stages.
func (s *State) excludes(o, d *deployment.Deployment, b deployment.Span) bool {
	return o != d && o.Holds(s.layout, b) && (o.Of() != d.Of() || b.From == b.To)
}

func (c Repair) propose(s *State) ([]deploylog.Event, error) {
	stage, err := s.stageOf(c.Stage)
	if err != nil {
		return nil, err
	}
	if stage.Closing() {
		return nil, refusal.New(NothingToRepair, "stage %s cannot be repaired: it has when: %s, and runs at the end of each attempt of a revision", stage.Name, stage.When)
	}
	of, err := s.again(stage, "repaired")
	if err != nil {
		return nil, err
	}
	r := s.revisions[of]
	if stage.Deploy == nil {
		remedy := fmt.Sprintf("deployster pipeline rerun %s %s %s does it again", s.name, stage.Name, r.Revision)
		if stage.Environment != "" {
			remedy = "environment " + stage.Environment + " goes on with hosts that failed by itself (deployster env status " + stage.Environment + ")"
		}
		return nil, refusal.New(NothingToRepair, "stage %s has no hosts that could be repaired: it is a %s stage; %s", stage.Name, stage.Kind(), remedy)
	}
	if last := s.revisions[s.visits[stage.Target].newest]; last.Redo != nil && len(last.Redo.Hosts) == 0 && last.Status != deployment.Finished {
		return nil, refusal.New(NothingToRepair, "stage %s cannot be repaired: it was done again with revision %s, and has not finished (event %d); retry that (deployster pipeline retry %s %s)", stage.Name, r.Revision, last.Since, s.name, last.Deployment)
	}
	hosts, err := s.toRepair(stage, r.Revision, c.Hosts)
	if err != nil {
		return nil, err
	}
	return s.redo(stage, of, c.ID, record.RedoInfo{What: record.Repair, Hosts: hosts, By: c.By, Reason: c.Reason})
}

// toRepair are those of the hosts that failed in a stage that have these names; no names are
// all of them.
func (s *State) toRepair(stage *deployment.StageLayout, revision string, names []string) ([]deploylog.Target, error) {
	hosts, failed := s.visits[stage.Target].ending.FailedIn(stage, names)
	if len(failed) == 0 {
		return nil, refusal.New(NothingToRepair, "stage %s has nothing to repair: revision %s failed on none of its hosts", stage.Name, revision)
	}
	for _, name := range names {
		if slices.Contains(failed, name) {
			continue
		}
		var members []string
		for g := range stage.Groups {
			for _, host := range stage.Groups[g].Hosts {
				members = append(members, host.Name)
			}
		}
		if slices.Contains(members, name) {
			return nil, refusal.New(NothingToRepair, "host %s is not repaired: revision %s has not failed there in stage %s, but on %s", name, revision, stage.Name, strings.Join(failed, ", "))
		}
		meant := ""
		if closest := suggest.Closest(name, members); closest != "" {
			meant = "; did you mean " + closest + "?"
		}
		return nil, refusal.New(UnknownHost, "%w host %q of stage %s of pipeline %s: revision %s failed there on %s%s", ErrUnknown, name, stage.Name, s.name, revision, strings.Join(failed, ", "), meant)
	}
	return hosts, nil
}

func (c Rerun) propose(s *State) ([]deploylog.Event, error) {
	stage, err := s.stageOf(c.Stage)
	if err != nil {
		return nil, err
	}
	if _, err := s.last(c.Revision); err != nil {
		return nil, err
	}
	if stage.WaitsForOthers() {
		return nil, refusal.New(NothingToRerun, "stage %s cannot be done again: nothing is done there, it is a %s stage", stage.Name, stage.Kind())
	}
	if stage.Closing() {
		return nil, refusal.New(NothingToRerun, "stage %s cannot be done again: it has when: %s, and runs only at the end of a revision, whose outcome it is told", stage.Name, stage.When)
	}
	if i, enters := s.enters(stage, c.Revision); enters {
		return s.enter(stage, i, c)
	}
	if v, came := s.visits[stage.Target]; came {
		if newest := s.revisions[v.newest]; newest.Revision != c.Revision {
			remedy := "release it again under another name, or release a newer one"
			if stage.Deploy != nil || stage.Environment != "" {
				remedy = fmt.Sprintf("deployster pipeline rollback %s %s --revision %s goes back to it", s.name, stage.Name, c.Revision)
			}
			if !slices.ContainsFunc(v.finished, func(i int) bool { return s.revisions[i].Revision == c.Revision }) {
				return nil, refusal.New(NothingToRerun, "stage %s cannot be done again with revision %s: that has not finished it", stage.Name, c.Revision)
			}
			return nil, refusal.New(NewerIsAhead, "stage %s cannot be done again with revision %s: revision %s has come to it since (event %d); %s", stage.Name, c.Revision, newest.Revision, v.at, remedy)
		}
	}
	of, err := s.again(stage, "done again")
	if err != nil {
		return nil, err
	}
	return s.redo(stage, of, c.ID, record.RedoInfo{What: record.Rerun, By: c.By, Reason: c.Reason})
}

// enters reports whether a revision has finished and not come to a stage, because that was added
// later, and no newer one has. It returns the registration of the revision.
func (s *State) enters(stage *deployment.StageLayout, revision string) (i int, enters bool) {
	i, released := s.byRevision[revision]
	if !released || s.revisions[i].Status != deployment.Finished || stage.Deploy == nil && stage.Run == nil && stage.Environment == "" || stage.Closing() {
		return 0, false
	}
	v, came := s.visits[stage.Target]
	return i, !came || s.first(v.newest) < i
}

// unfinishedBefore returns a stage before another one that a revision has not finished, such as an
// approval that was added later, or nil. A stage that the command cannot bring the revision into
// comes first.
func (s *State) unfinishedBefore(stage *deployment.StageLayout, i int) (first *deployment.StageLayout) {
	for _, a := range stage.Ancestors {
		before := &s.layout.Stages[a]
		if before.Closing() || slices.ContainsFunc(s.visits[before.Target].finished, func(f int) bool { return s.first(f) == i }) {
			continue
		}
		if _, enters := s.enters(before, s.revisions[i].Revision); !enters {
			return before
		}
		if first == nil {
			first = before
		}
	}
	return first
}

// mayEnter refuses to bring a revision into a stage past one that it has not finished.
func (s *State) mayEnter(stage *deployment.StageLayout, i int) error {
	before := s.unfinishedBefore(stage, i)
	if before == nil {
		return nil
	}
	revision, remedy := s.revisions[i].Revision, "release it again under another name, or release a newer one"
	if _, enters := s.enters(before, revision); enters {
		remedy = fmt.Sprintf("deployster pipeline rerun %s %s %s brings it there first", s.name, before.Name, revision)
	} else if v, came := s.visits[before.Target]; came && s.first(v.newest) == i && s.revisions[v.newest].Redo != nil {
		remedy = fmt.Sprintf("wait until deployment %s has finished that, or retry it", s.revisions[v.newest].Deployment)
	}
	return refusal.New(NotReached, "revision %s cannot be brought into stage %s: it has not finished the %s stage %s, which comes before%s; %s", revision, stage.Name, before.Kind(), before.Name, neverEnters(before), remedy)
}

// neverEnters returns why no revision can be brought into a stage that was added later, after a comma; "" if
// one can.
func neverEnters(stage *deployment.StageLayout) string {
	switch {
	case stage.Approval != nil:
		return ", and an approval is of all that a revision was released with, not of what is sent later"
	case stage.Build != nil:
		return ", and what others took from the revision is what it built before it finished"
	}
	return ""
}

// enter registers a deployment that brings a revision into a stage that was added later.
func (s *State) enter(stage *deployment.StageLayout, i int, c Rerun) ([]deploylog.Event, error) {
	if err := s.mayEnter(stage, i); err != nil {
		return nil, err
	}
	if err := s.batchesFree(stage, s.revisions[i].Deployment, "done"); err != nil {
		return nil, err
	}
	if c.Carries == nil && stage.Environment == "" {
		return nil, refusal.New(CarriesNothing, "stage %s was added after revision %s was released, which carries nothing for it: deployster pipeline rerun %s %s %s sends what it applies", stage.Name, c.Revision, s.name, stage.Name, c.Revision)
	}
	events, err := s.redo(stage, i, c.ID, record.RedoInfo{What: record.Rerun, First: true, By: c.By, Reason: c.Reason})
	if err == nil && c.Carries != nil {
		p := record.Read(events[0].Data)
		p.Carries, p.Bound = c.Carries, c.Bound
		events[0].Data = p.Data()
	}
	return events, err
}

// entering returns how the newest revision that has finished is brought into a stage that it has
// not come to, after a semicolon; "" is that there is none, or that it has first to finish another
// stage.
func (s *State) entering(stage *deployment.StageLayout) string {
	if s.finished == 0 {
		return ""
	}
	if r := s.revisions[s.finished-1]; r.Status == deployment.Finished {
		if i, enters := s.enters(stage, r.Revision); enters && s.unfinishedBefore(stage, i) == nil {
			return fmt.Sprintf("; revision %s finished before the stage was added: deployster pipeline rerun %s %s %s brings it there", r.Revision, s.name, stage.Name, r.Revision)
		}
	}
	return ""
}

// Behind returns, for the stages that the newest finished revision has not come to because they
// were added later, what brings it there. It leaves out a stage if the revision has to finish
// another one first.
func (s *State) Behind() (commands []string) {
	if l := s.currentLayout(); l != nil {
		for i := range l.Stages {
			if text := s.entering(&l.Stages[i]); text != "" {
				commands = append(commands, "stage "+l.Stages[i].Name+" is new"+text)
			}
		}
	}
	return commands
}

// stageOf finds a stage by the name that a person gives it.
func (s *State) stageOf(name string) (*deployment.StageLayout, error) {
	whole, err := s.Stage(name)
	if err != nil {
		return nil, err
	}
	return &s.layout.Stages[s.layout.StageAt[record.StageTarget(s.name, whole)]], nil
}

// again finds the registration of the deployment that finished a stage last, for something
// of it to be done again. It refuses while somebody is in the stage, or in a batch that it
// belongs to, and where another one has come to it since.
func (s *State) again(stage *deployment.StageLayout, done string) (of int, err error) {
	v, came := s.visits[stage.Target]
	if !came {
		remedy := cmp.Or(s.entering(stage), fmt.Sprintf("; release one (deployster pipeline release %s REVISION)", s.name))
		return 0, refusal.New(NotReached, "stage %s cannot be %s: no revision has come to it%s", stage.Name, done, remedy)
	}
	of = v.newest
	if r := s.revisions[of].Redo; r != nil && !r.First {
		of = max(0, s.indexOf(r.Of))
	}
	r := s.revisions[of]
	if err := s.batchesFree(stage, r.Deployment, done); err != nil {
		return 0, err
	}
	if !slices.Contains(v.finished, of) {
		retry := "retry it"
		if d := s.byID[r.Deployment]; d != nil {
			retry += fmt.Sprintf(" (deployster pipeline retry %s %s)", s.name, s.nameOf(d))
		}
		return 0, refusal.New(NotReached, "stage %s cannot be %s: revision %s has not finished it, but is %s (event %d); %s, or release another one", stage.Name, done, r.Revision, r.Status, r.Since, retry)
	}
	if v.ending.Kind != stage.Kind() {
		return 0, refusal.New(OtherStage, "stage %s cannot be %s with revision %s: when that finished it, it was another kind of stage; release it again under another name", stage.Name, done, r.Revision)
	}
	return of, s.carriesAll(stage, of, done+" with")
}

// batchesFree refuses to do a stage again while another deployment is in it, or in a batch that
// it belongs to.
func (s *State) batchesFree(stage *deployment.StageLayout, id, done string) error {
	asked := &deployment.Deployment{ID: id}
	stragglers := s.stragglers()
	for b, batch := range s.layout.Batches {
		if !s.layout.Includes(batch, s.layout.StageAt[stage.Target]) {
			continue
		}
		for _, o := range s.deployments {
			if s.excludes(o, asked, batch) {
				return refusal.New(BatchIsHeld, "stage %s cannot be %s yet: revision %s is in it, or in a batch that it belongs to; wait for its end, or cancel it (deployster pipeline cancel %s %s)", stage.Name, done, o.Revision, s.name, s.nameOf(o))
			}
		}
		if w := walk.Straggler(stragglers, b, asked); w != nil {
			return refusal.New(BatchIsHeld, "stage %s cannot be %s yet: %s", stage.Name, done, w.Reason().Message())
		}
	}
	return nil
}

// redo registers a deployment that does a stage again. It is in the stage at once, so that
// nobody comes between.
func (s *State) redo(stage *deployment.StageLayout, of int, id string, info record.RedoInfo) ([]deploylog.Event, error) {
	r := s.revisions[of]
	info.Stage, info.Target, info.Of = stage.Name, stage.Target, r.Deployment
	return []deploylog.Event{
		{Deployment: id, Target: s.target, Revision: r.Revision, Name: record.PipelineStarted, Attempt: 1, Data: record.Payload{By: info.By, Reason: info.Reason, Carries: r.Carries, Takes: r.Takes, Redo: &info}.Data()},
		{Deployment: id, Target: stage.Target, Revision: r.Revision, Name: record.StageStarted, Attempt: 1},
	}, nil
}
