package pipeline

import (
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
)

// Rollback deploys an earlier revision to the hosts of one stage again, with what it
// carries, and pauses the stage, so that no other enters it until that is resumed.
type Rollback struct {
	Stage      string
	Revision   string // "" is the last good one: that finished the stage last before the present one, and was not rolled back itself
	ID         string // of the fresh deployment
	By, Reason string
}

// RollbackInfo is what a deployment that rolls a stage back does, in the data of the event
// that starts it.
type RollbackInfo struct {
	Stage    string           `json:"stage"`
	Target   deploylog.Target `json:"target"`             // of the stage
	Original string           `json:"original"`           // deployment of the revision that is deployed again
	Replaces string           `json:"replaces,omitempty"` // revision that was there
	Replaced string           `json:"replaced,omitempty"` // and its deployment
	By       string           `json:"by,omitempty"`
	Reason   string           `json:"reason,omitempty"`
}

// visits is what has come to a stage, as deployments that passed through it or deployed it
// again, by the index of their registration.
type visits struct {
	newest   int             // that has begun it
	at       int64           // event at which that did
	finished []int           // in order
	bad      map[string]bool // deployments that were rolled back
}

// inputs are what a deployment does its steps with, kept when it has ended.
type inputs struct {
	manifests map[string]string
	brought   map[string]Files
	adopted   map[string]bool
	refs      map[string]string
}

func (d *deployment) inputs() inputs { return inputs{d.manifests, d.brought, d.adopted, d.refs} }

// visit notes that a deployment began or finished a stage.
func (s *State) visit(d *deployment, e deploylog.Event) {
	if e.Name != stageStarted && e.Name != stageFinished || e.Target.Kind() != "stage" {
		return
	}
	v := s.visits[e.Target]
	if e.Name == stageStarted {
		v.newest, v.at = d.order-1, e.Seq
	} else {
		v.finished = append(v.finished, d.order-1)
	}
	s.visits[e.Target] = v
}

// overtaken refuses to go on with a deployment in a stage that another one has entered
// since, be it a rollback that has ended: what the other did on hosts that this one is
// done with would stay there, and the stage would be recorded as finished all the same.
func (s *State) overtaken(d *deployment) error {
	for i := range s.layout.stages {
		stage, run := &s.layout.stages[i], &d.stages[i]
		v, came := s.visits[stage.target]
		changes := stage.Build == nil && stage.Approval == nil
		if !changes || !run.begun || run.passed || !came || v.newest == d.order-1 || v.at < run.since() {
			continue
		}
		what, remedy := "revision ", "release it again under another name, or release a newer one"
		if s.revisions[v.newest].Rollback != nil {
			what = "a rollback to revision "
		}
		if d.rollback != nil {
			remedy = "roll the stage back again (deployster pipeline rollback " + s.name + " " + stage.Name + " --revision " + d.revision + ")"
		}
		return refusal.New(NewerIsAhead, "revision %s cannot be retried: %s%s has entered stage %s since (event %d), and some of its hosts would keep that; %s",
			d.revision, what, s.revisions[v.newest].Revision, stage.Name, v.at, remedy)
	}
	return nil
}

// since is the first event of the deployment in the stage.
func (r *stageRun) since() (first int64) {
	note := func(m *marks) {
		if m != nil && len(*m) > 0 && (first == 0 || (*m)[0].seq < first) {
			first = (*m)[0].seq
		}
	}
	note(r.marks)
	for g := range r.groups {
		note(r.groups[g].marks)
		for h := range r.groups[g].hosts {
			note(r.groups[g].hosts[h].marks)
		}
	}
	return first
}

// rollBack makes a deployment that has just been registered one that deploys a revision
// again, as its first deployment did.
func (s *State) rollBack(d *deployment, r *RollbackInfo) {
	d.rollback, s.revisions[d.order-1].Rollback = r, r
	v := s.visits[r.Target]
	bad := map[string]bool{r.Replaced: true}
	for id := range v.bad {
		bad[id] = true
	}
	delete(bad, r.Original) // somebody wants it again
	v.bad = bad
	s.visits[r.Target] = v
	i := slices.IndexFunc(s.revisions, func(o Registration) bool { return o.Deployment == r.Original })
	if i < 0 {
		return
	}
	in := s.revisions[i].inputs
	if original := s.byID[r.Original]; original != nil {
		in = original.inputs()
	}
	d.age, d.manifests, d.brought, d.adopted = i+1, in.manifests, in.brought, maps.Clone(in.adopted)
	for kind, ref := range in.refs {
		d.refs[kind] = ref
	}
}

// elsewhere reports whether a stage is not the one that a rollback is of.
func (d *deployment) elsewhere(stage *stageLayout) bool {
	return d.rollback != nil && d.rollback.Target != stage.target
}

// aimless is why a rollback fails whose stage has left the pipeline, such as by another name,
// before it was finished; "" is nothing.
func (d *deployment) aimless(l *layout) string {
	if d.rollback == nil || d.marks[d.rollback.Target].has(stageFinished) {
		return ""
	}
	if _, there := l.stageAt[d.rollback.Target]; there {
		return ""
	}
	return "stage " + d.rollback.Stage + " is not in the pipeline any more: roll back a stage that is"
}

// meant finds the deployment that a revision names, or the id of a deployment. A revision
// that is under way itself while a stage is rolled back to it names neither.
func (s *State) meant(name string) (Registration, error) {
	var all []*deployment
	for _, d := range s.deployments {
		if d.revision == name && d.status == Running {
			all = append(all, d)
		}
	}
	if len(all) > 1 {
		var which []string
		for _, d := range all {
			what := "its release"
			if d.rollback != nil {
				what = "the rollback of stage " + d.rollback.Stage
			}
			which = append(which, d.id+" ("+what+")")
		}
		return Registration{}, refusal.New(AmbiguousName, "revision %s of pipeline %s is %w: it is under way more than once; give the deployment instead of the revision: %s", name, s.name, ErrAmbiguous, strings.Join(which, " or "))
	}
	if d := s.byID[name]; d != nil {
		if _, released := s.byRevision[name]; !released {
			return s.revisions[d.order-1], nil
		}
	}
	return s.registration(name)
}

// ended is what a name means to which something is done again: of a revision that is under
// way, the rollback to it that is not.
func (s *State) ended(name string) (Registration, error) {
	r, err := s.meant(name)
	if last, ok := s.rollbacks[name]; err == nil && ok && r.Status == Running && s.revisions[last].Status != Running && s.byID[s.revisions[last].Deployment] != nil {
		r = s.revisions[last]
	}
	return r, err
}

// first is the registration of a revision whose deployment another one may repeat.
func (s *State) first(i int) int {
	r := s.revisions[i].Rollback
	if r == nil {
		return i
	}
	return max(0, slices.IndexFunc(s.revisions, func(o Registration) bool { return o.Deployment == r.Original }))
}

func (c Rollback) propose(s *State) ([]deploylog.Event, error) {
	name, err := s.Stage(c.Stage)
	if err != nil {
		return nil, err
	}
	stage := &s.layout.stages[s.layout.stageAt[StageTarget(s.name, name)]]
	if stage.Deploy == nil && stage.Environment == "" {
		return nil, refusal.New(NothingToRollBack, "stage %s deploys to no hosts and no environment: it is a %s stage", name, stage.Kind())
	}
	for _, d := range s.deployments {
		if d.status == Running && d.rollback != nil && d.rollback.Target == stage.target {
			return nil, refusal.New(RollbackRunning, "stage %s is %w being rolled back to revision %s (event %d)", name, ErrRepeated, d.revision, d.seq)
		}
	}
	holders := s.batchHolders()
	for _, b := range stage.opens {
		if h := holders[b]; h != nil {
			return nil, refusal.New(BatchIsHeld, "stage %s cannot be rolled back yet: revision %s is in it, or in the batch that begins with it; wait for its end, or cancel it (deployster pipeline cancel %s %s)", name, h.revision, s.name, h.revision)
		}
	}
	to, err := s.good(stage, c.Revision)
	if err != nil {
		return nil, err
	}
	r, v := s.revisions[to], s.visits[stage.target]
	at := s.present(v)
	present := s.revisions[at]
	info := RollbackInfo{Stage: name, Target: stage.target, Original: r.Deployment, Replaces: present.Revision, Replaced: present.Deployment, By: c.By, Reason: c.Reason}
	if to == at {
		info.Replaces, info.Replaced = "", ""
	}
	started := deploylog.Event{
		Deployment: c.ID, Target: s.target, Revision: r.Revision, Name: pipelineStarted, Attempt: 1,
		Data: payload{By: c.By, Reason: c.Reason, Carries: r.Carries, Rollback: &info}.data(),
	}
	if s.heldByRollback(stage.target) {
		return []deploylog.Event{started}, nil
	}
	reason := "rolled back to revision " + r.Revision
	if c.Reason != "" {
		reason += ": " + c.Reason
	}
	return []deploylog.Event{{
		Deployment: c.ID, Target: stage.target, Name: EventStagePaused, Attempt: 1, Data: payload{By: c.By, Reason: reason}.data(),
	}, started}, nil
}

// present is the registration of what is left behind when a stage is rolled back: what came
// last, or what that was to replace where it is a rollback that has not finished the stage. So
// a rollback that is given again has the same aim, not one before it.
func (s *State) present(v visits) int {
	r := s.revisions[v.newest].Rollback
	if r != nil && r.Replaced != "" && !slices.Contains(v.finished, v.newest) {
		if i := slices.IndexFunc(s.revisions, func(o Registration) bool { return o.Deployment == r.Replaced }); i >= 0 {
			return i
		}
	}
	return s.first(v.newest)
}

// heldByRollback reports whether a stage is paused by a rollback. A pause that somebody made
// for something else ends when that is over, and does not stand for it.
func (s *State) heldByRollback(stage deploylog.Target) bool {
	return slices.ContainsFunc(s.Pauses(), func(p PauseInfo) bool {
		return p.Target == stage && slices.ContainsFunc(s.revisions, func(r Registration) bool { return r.Rollback != nil && r.Deployment == p.deployment })
	})
}

// good finds the registration of the revision to which a stage is rolled back.
func (s *State) good(stage *stageLayout, revision string) (int, error) {
	v, came := s.visits[stage.target]
	if !came {
		return 0, refusal.New(NothingToRollBack, "stage %s cannot be rolled back: no revision has come to it", stage.Name)
	}
	present := s.present(v)
	finished := false // the present one, which then is what is left behind
	for n := len(v.finished) - 1; n >= 0; n-- {
		i := s.first(v.finished[n])
		finished = finished || i == present
		switch r := s.revisions[i]; {
		case revision != "" && r.Revision != revision, revision == "" && (i == present || v.bad[r.Deployment]):
		case revision != "" && i == present && v.newest == v.finished[len(v.finished)-1]:
			return 0, refusal.New(NothingToRollBack, "stage %s has revision %s already", stage.Name, revision)
		default:
			return i, s.carriesAll(stage, i)
		}
	}
	switch {
	case revision != "":
		if _, err := s.registration(revision); err != nil {
			return 0, err
		}
		return 0, refusal.New(NothingToRollBack, "stage %s cannot be rolled back to revision %s: that has not finished it", stage.Name, revision)
	case finished:
		return 0, refusal.New(NothingToRollBack, "stage %s cannot be rolled back: no good revision finished it before %s; name one (--revision)", stage.Name, s.revisions[present].Revision)
	default:
		return 0, refusal.New(NothingToRollBack, "stage %s cannot be rolled back: no good revision has finished it; name one (--revision)", stage.Name)
	}
}

// carriesAll refuses a revision that does not carry what the stage would apply.
func (s *State) carriesAll(stage *stageLayout, i int) error {
	if stage.Deploy == nil { // the environment has it
		return nil
	}
	r := s.revisions[i]
	d := &deployment{order: i + 1, carries: r.Carries, manifests: r.inputs.manifests, brought: r.inputs.brought, adopted: r.inputs.adopted}
	if original := s.byID[r.Deployment]; original != nil {
		d = original
	}
	for at, step := range stage.Deploy.Steps {
		late := slices.ContainsFunc(stage.introduced, func(in introduction) bool { return in.at == at+1 && d.older(in) })
		if a := d.applies(stepUnit(stage.Name, step.Event), step.Manifest); !late && a.files == nil {
			if r.Carries == nil {
				return refusal.New(NothingToRollBack, "stage %s cannot be rolled back to revision %s: that does not carry manifest %s, for an older version of Deployster released it; release it again under another name", stage.Name, r.Revision, a.manifest)
			}
			return refusal.New(NothingToRollBack, "stage %s cannot be rolled back to revision %s: that does not carry manifest %s, which the stage applies; apply the former definition first", stage.Name, r.Revision, a.manifest)
		}
	}
	return nil
}

// RollbackOf is what a deployment rolls back that an event starts; nil is nothing.
func RollbackOf(e deploylog.Event) *RollbackInfo {
	if e.Name != pipelineStarted {
		return nil
	}
	return read(e.Data).Rollback
}
