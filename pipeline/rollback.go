package pipeline

import (
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// Rollback deploys an earlier revision to the hosts of one stage again, with what it
// carries, and pauses the stage, so that no other enters it until that is resumed.
type Rollback struct {
	Stage      string
	Revision   string // "" is the last good one: that finished the stage last before the present one, and was not rolled back itself
	ID         string // of the fresh deployment
	By, Reason string
}

// visits is what has come to a stage, as deployments that passed through it or deployed it
// again, by the index of their registration. Of a host group it is only the newest.
type visits struct {
	newest   int              // that has begun it
	at       int64            // event at which that did
	finished []int            // in order
	bad      map[string]bool  // deployments that were rolled back
	left     upstream.LeftOut // deployments that had finished it, and do not count as having
	ending   deployment.Ending
}

// visit notes that a deployment began or finished a stage, repaired a host there, or failed to
// do the stage again.
func (s *State) visit(d *deployment.Deployment, e deploylog.Event) {
	at := e.Target
	switch again := d.Redo.Info != nil; {
	case e.Name == record.HostFinished && again:
		at = d.Only()
	case e.Name == record.GroupStarted:
	case e.Target.Kind() != "stage":
		return
	case e.Name == record.StageStarted, e.Name == record.StageFinished, e.Name == record.StageFailed && again:
	default:
		return
	}
	v := s.visits[at]
	switch e.Name {
	case record.StageStarted, record.GroupStarted:
		v.newest, v.at = d.Order-1, e.Seq
	case record.HostFinished:
		v.ending = v.ending.Repaired(e.Target)
	case record.StageFailed:
		v.left = v.left.With(s.revisions[s.first(d.Order-1)].Deployment, upstream.Left{Seq: e.Seq, Failed: true})
	default:
		v.finished, v.ending = append(v.finished, d.Order-1), d.Ends(s.definition, e, v.ending)
		v.left = v.left.Without(s.revisions[s.first(d.Order-1)].Deployment)
	}
	s.visits[at] = v
}

// overtaken is why a deployment cannot go on, "" that it can: it has begun a stage, and not
// passed it, that another one has entered since, or one of its host groups, which may have been
// in another stage. What the other did on hosts that this one is done with would stay there, and
// the stage would be recorded as finished all the same. The other may have ended, too.
func (s *State) overtaken(d *deployment.Deployment) (why string) {
	came := func(t deploylog.Target, since func() int64, in string) bool {
		v, came := s.visits[t]
		if !came || v.newest == d.Order-1 || v.at < since() { // nothing is before it
			return false
		}
		r, what := s.revisions[v.newest], "revision "
		if r.Rollback != nil {
			what = "a rollback to revision "
		} else if r.Redo != nil {
			what = "a " + string(r.Redo.What) + " of revision "
		}
		why = fmt.Sprintf("%s%s has entered %s since (event %d), and some of its hosts would keep that", what, r.Revision, in, v.at)
		return true
	}
	for i := range s.layout.Stages {
		stage, run := &s.layout.Stages[i], &d.Stages[i]
		if stage.Build != nil || stage.Approval != nil || stage.Closing() || !run.Begun || run.Passed {
			continue
		}
		if came(stage.Target, run.Since, "stage "+stage.Name) {
			return why
		}
		for g := range stage.Groups {
			if came(stage.Groups[g].Target, run.Groups[g].Since, "host group "+stage.Groups[g].Name) {
				return why
			}
		}
	}
	return ""
}

// retryOvertaken refuses to try a deployment again that was overtaken.
func (s *State) retryOvertaken(d *deployment.Deployment) error {
	why, remedy := s.overtaken(d), "release it again under another name, or release a newer one"
	switch {
	case why == "":
		return nil
	case d.Redo.Info != nil:
		remedy = "deployster pipeline " + string(d.Redo.Info.What) + " does it again, where no other revision has come to the stage"
	case d.Rollback != nil:
		remedy = "roll the stage back again (deployster pipeline rollback " + s.name + " " + d.Rollback.Stage + " --revision " + d.Revision + ")"
	}
	return refusal.New(NewerIsAhead, "revision %s cannot be retried: %s; %s", d.Revision, why, remedy)
}

// rollBack makes a deployment that has just been registered one that deploys a revision
// again, as its first deployment did.
func (s *State) rollBack(d *deployment.Deployment, r *record.RollbackInfo) {
	d.Rollback, s.revisions[d.Order-1].Rollback = r, r
	v := s.visits[r.Target]
	bad := map[string]bool{r.Replaced: true}
	for id := range v.bad {
		bad[id] = true
	}
	delete(bad, r.Original) // somebody wants it again
	v.bad = bad
	s.visits[r.Target] = v
	if i := s.indexOf(r.Original); i >= 0 {
		s.wantBack(d, d.Seq)
		s.inherit(d, i)
	}
}

func (c Rollback) propose(s *State) ([]deploylog.Event, error) {
	stage, err := s.stageOf(c.Stage)
	if err != nil {
		return nil, err
	}
	name := stage.Name
	if stage.Closing() {
		return nil, refusal.New(NothingToRollBack, "stage %s cannot be rolled back: it has when: %s, and runs at the end of each attempt of a revision", name, stage.When)
	}
	if stage.Deploy == nil && stage.Environment == "" {
		return nil, refusal.New(NothingToRollBack, "stage %s deploys to no hosts and no environment: it is a %s stage", name, stage.Kind())
	}
	for _, d := range s.deployments {
		if d.Status == deployment.Running && d.Rollback != nil && d.Rollback.Target == stage.Target {
			return nil, refusal.New(RollbackRunning, "stage %s is %w being rolled back to revision %s (event %d)", name, ErrRepeated, d.Revision, d.Seq)
		}
	}
	holders := s.batchHolders()
	for _, b := range stage.Opens {
		if h := holders[b]; h != nil {
			return nil, refusal.New(BatchIsHeld, "stage %s cannot be rolled back yet: revision %s is in it, or in the batch that begins with it; wait for its end, or cancel it (deployster pipeline cancel %s %s)", name, h.Revision, s.name, s.nameOf(h))
		}
	}
	to, err := s.good(stage, c.Revision)
	if err != nil {
		return nil, err
	}
	r, v := s.revisions[to], s.visits[stage.Target]
	at := s.present(v)
	present := s.revisions[at]
	info := record.RollbackInfo{Stage: name, Target: stage.Target, Original: r.Deployment, Replaces: present.Revision, Replaced: present.Deployment, By: c.By, Reason: c.Reason}
	if to == at {
		info.Replaces, info.Replaced = "", ""
	}
	started := deploylog.Event{
		Deployment: c.ID, Target: s.target, Revision: r.Revision, Name: record.PipelineStarted, Attempt: 1,
		Data: record.Payload{By: c.By, Reason: c.Reason, Carries: r.Carries, Takes: r.Takes, Rollback: &info}.Data(),
	}
	if s.heldByRollback(stage.Target) {
		return []deploylog.Event{started}, nil
	}
	reason := "rolled back to revision " + r.Revision
	if c.Reason != "" {
		reason += ": " + c.Reason
	}
	return []deploylog.Event{{
		Deployment: c.ID, Target: stage.Target, Name: record.StagePaused, Attempt: 1, Data: record.Payload{By: c.By, Reason: reason}.Data(),
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
func (s *State) good(stage *deployment.StageLayout, revision string) (int, error) {
	v, came := s.visits[stage.Target]
	if !came {
		return 0, refusal.New(NothingToRollBack, "stage %s cannot be rolled back: no revision has come to it%s", stage.Name, s.entering(stage))
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
			return i, s.carriesAll(stage, i, "rolled back to")
		}
	}
	switch {
	case revision != "":
		if _, err := s.last(revision); err != nil {
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
func (s *State) carriesAll(stage *deployment.StageLayout, i int, done string) error {
	r := s.revisions[i]
	d := &deployment.Deployment{Order: i + 1, Carries: r.Carries, Manifests: r.inputs.Manifests, Brought: r.inputs.Brought, Adopted: r.inputs.Adopted}
	if original := s.byID[r.Deployment]; original != nil {
		d = original
	}
	manifest, lacks := d.Lacks(stage)
	switch {
	case !lacks:
		return nil
	case r.Carries == nil:
		return refusal.New(NothingToRollBack, "stage %s cannot be %s revision %s: that does not carry manifest %s, for an older version of Deployster released it; release it again under another name", stage.Name, done, r.Revision, manifest)
	default:
		return refusal.New(NothingToRollBack, "stage %s cannot be %s revision %s: that does not carry manifest %s, which the stage applies; apply the former definition first", stage.Name, done, r.Revision, manifest)
	}
}
