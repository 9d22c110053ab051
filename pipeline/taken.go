package pipeline

import (
	"fmt"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// wantBack notes, when a rollback of a stage begins or is tried again, which revisions newer
// than the one that is wanted had finished it: they are not taken by others any more, unless
// they finish it again.
func (s *State) wantBack(d *deployment.Deployment, seq int64) {
	if d.Rollback == nil || begun(d) {
		return
	}
	v, to := s.visits[d.Rollback.Target], s.indexOf(d.Rollback.Original)
	for _, i := range v.finished {
		first := s.first(i)
		if _, out := v.left[s.revisions[first].Deployment]; first > to && !out {
			v.left = v.left.With(s.revisions[first].Deployment, upstream.Left{Seq: seq, For: d.ID})
		}
	}
	s.visits[d.Rollback.Target] = v
}

// begun reports whether a rollback has begun its stage.
func begun(d *deployment.Deployment) bool {
	_, begun := d.Started[d.Rollback.Target]
	return begun
}

// wantBackNoMore notes that a rollback was cancelled. What it had not begun to replace is
// taken by others again.
func (s *State) wantBackNoMore(d *deployment.Deployment) {
	if d.Rollback == nil || begun(d) {
		return
	}
	v := s.visits[d.Rollback.Target]
	for id, why := range v.left {
		if why.For == d.ID {
			v.left = v.left.Without(id)
		}
	}
	s.visits[d.Rollback.Target] = v
}

// need is what another pipeline needs of the revisions of this one.
type need struct {
	stages   []string       // whole names
	passed   []map[int]bool // for each of them, the registrations of the revisions that have
	finished bool
}

// stagesOf finds the stages that another pipeline names.
func (s *State) stagesOf(n definition.Needed) (found need, err error) {
	if err := s.isDefined(); err != nil {
		return found, err
	}
	found.finished = n.Finished
	for _, name := range n.Passed {
		stage, err := s.Stage(name)
		if err != nil {
			return found, err
		}
		if slices.Contains(found.stages, stage) {
			continue
		}
		passed := map[int]bool{}
		for _, i := range s.visits[record.StageTarget(s.name, stage)].finished {
			first := s.first(i)
			if r := s.revisions[i].Rollback; r == nil || r.Original == s.revisions[first].Deployment {
				passed[first] = true
			}
		}
		found.stages, found.passed = append(found.stages, stage), append(found.passed, passed)
	}
	return found, nil
}

// String says what a revision is to have done.
func (n need) String() string {
	return upstream.Input{Passed: n.stages, Finished: n.finished}.Had()
}

// lacks is why a revision cannot be taken; "" is that it can.
func (s *State) lacks(n need, i int) string {
	r := s.revisions[i]
	for at, stage := range n.stages {
		if !n.passed[at][i] {
			return "has not passed stage " + stage
		}
		if why, away := s.visits[record.StageTarget(s.name, stage)].left[r.Deployment]; away {
			return why.Of("stage " + stage)
		}
	}
	if !n.finished {
		return ""
	}
	if r.Status != deployment.Finished {
		return fmt.Sprintf("has not finished: it is %s", r.Status)
	}
	for _, target := range slices.Sorted(maps.Keys(s.visits)) {
		if why, away := s.visits[target].left[r.Deployment]; away {
			return why.Of(string(target))
		}
	}
	return ""
}

// candidate is a revision as another pipeline takes it.
func (s *State) candidate(n need, i int) upstream.Input {
	r := s.revisions[i]
	made := r.inputs
	if d := s.byID[r.Deployment]; d != nil {
		made = d.Inputs()
	}
	taken := slices.ContainsFunc(r.Takes, func(in upstream.Input) bool { return in.Bound })
	return upstream.Input{
		Release: upstream.Release{Pipeline: s.name, Revision: r.Revision, Deployment: r.Deployment},
		Passed:  n.stages, Finished: n.finished, Artifacts: maps.Clone(made.Refs), Bound: made.Bound || made.Filled || taken, Inputs: upstream.Closure(s.name, r.Takes),
	}
}

// Defined refuses a pipeline that was deleted.
func (s *State) Defined() error { return s.isDefined() }

// Candidates are the revisions that another pipeline may take, the newest first; one at least.
func (s *State) Candidates(wanted definition.Needed) (all []upstream.Input, err error) {
	n, err := s.stagesOf(wanted)
	if err != nil {
		return nil, err
	}
	last := ""
	for i, r := range slices.Backward(s.revisions) {
		if r.Rollback != nil || r.Redo != nil {
			continue
		}
		if lacks := s.lacks(n, i); lacks == "" {
			all = append(all, s.candidate(n, i))
		} else if last == "" {
			last = fmt.Sprintf("the last one, %s, %s", r.Revision, lacks)
		}
	}
	switch {
	case len(all) > 0:
		return all, nil
	case last == "":
		return nil, refusal.New(NothingToTake, "no revision of pipeline %s was released yet: release one (deployster pipeline release %s REVISION), and wait until it has %s", s.name, s.name, n)
	default:
		return nil, refusal.New(NothingToTake, "no revision of pipeline %s has %s, but for those that were rolled back since, or failed there again: %s; deployster pipeline status %s shows what waits", s.name, n, last, s.name)
	}
}

// Candidate is the revision of that name, which somebody wants to be taken.
func (s *State) Candidate(wanted definition.Needed, revision string) (upstream.Input, error) {
	n, err := s.stagesOf(wanted)
	if err != nil {
		return upstream.Input{}, err
	}
	i, known := s.byRevision[revision]
	if !known {
		_, err := s.last(revision)
		return upstream.Input{}, err
	}
	lacks := s.lacks(n, i)
	if lacks == "" {
		return s.candidate(n, i), nil
	}
	remedy := "let it pass first"
	if others, err := s.Candidates(wanted); err == nil {
		var names []string
		for _, o := range others {
			names = append(names, o.Revision)
		}
		const most = 5
		remedy = "take " + phrase.First(names, most)
	}
	return upstream.Input{}, refusal.New(NothingToTake, "revision %s of pipeline %s cannot be taken, for it %s: %s", revision, s.name, lacks, remedy)
}
