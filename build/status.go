package build

import (
	"slices"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/internal/refusal"
)

// Groups are all groups, the oldest first.
func (s *State) Groups() []Summary {
	defer s.recorded()()
	all := make([]Summary, len(s.groups))
	for i, g := range s.groups {
		all[i] = g.summary()
	}
	return all
}

func (g *group) summary() Summary {
	of := Summary{
		ID: g.id, Name: g.name, State: g.state, Cause: g.cause, Jobs: len(g.jobs), Counts: map[transition.Job]int{}, Built: g.counts[transition.Built],
		Unbuildable: len(g.created.Unbuildable), By: g.triggered.By, Round: max(1, g.attempts[record.GroupQueued]), Created: g.createdAt, Started: g.startedAt, Ended: g.endedAt,
		Seq: g.seq, Stalled: g.stalled, Pipeline: g.triggered.Pipeline, Reused: g.reused,
	}
	for state, n := range g.counts {
		if n > 0 {
			of.Counts[transition.Job(state)] = n
		}
	}
	if of.Cause == "" {
		of.Cause = g.canceling.Reason
	}
	return of
}

// Report is how far a group is.
func (s *State) Report(id string) (Report, error) {
	defer s.recorded()()
	g, err := s.known(id)
	if err != nil {
		return Report{}, err
	}
	r := Report{
		Summary: g.summary(), Triggered: g.triggered, Places: g.created.Places, Cycles: g.created.Cycles, Unbuildable: g.created.Unbuildable,
		Running: []JobReport{}, Failed: []JobReport{},
	}
	if g.state == transition.Canceling || g.state == transition.Canceled {
		by := g.canceling
		r.CanceledBy = &by
	}
	for i := range g.jobs {
		switch state := g.jobs[i].state; {
		case state.InFlight():
			r.Running = append(r.Running, s.job(g, int32(i)))
		case state == transition.JobFailed:
			r.Failed = append(r.Failed, s.job(g, int32(i)))
		}
	}
	return r, nil
}

// Jobs are the jobs of a group that are in one of the states; none are all.
func (s *State) Jobs(id string, states ...transition.Job) ([]JobReport, error) {
	defer s.recorded()()
	g, err := s.known(id)
	if err != nil {
		return nil, err
	}
	all := []JobReport{}
	for i := range g.jobs {
		if len(states) == 0 || slices.Contains(states, g.jobs[i].state) {
			all = append(all, s.job(g, int32(i)))
		}
	}
	return all, nil
}

// Job is how far a job is.
func (s *State) Job(id string, number int) (JobReport, error) {
	defer s.recorded()()
	g, err := s.known(id)
	switch {
	case err != nil:
		return JobReport{}, err
	case number < 1 || number > len(g.jobs):
		return JobReport{}, refusal.New(UnknownJob, "%w %d in build group %s: it has %d", ErrNoJob, number, g.id, len(g.jobs))
	}
	return s.job(g, int32(number-1)), nil
}

// job is how far a job is. What its events say is read only here.
func (s *State) job(g *group, i int32) JobReport {
	spec, j := &g.specs[i], &g.jobs[i]
	r := JobReport{
		Group: g.id, Number: int(i) + 1, Package: spec.Package, Version: spec.Version, Pass: spec.Pass, Of: spec.Of, State: j.state,
		Attempt: int(j.attempt), Lost: int(j.lost), Rebuilt: int(j.rebuilt), Because: int(j.because), Place: s.places[g.places[g.placeOf(i)]], Recipe: spec.Recipe, Uses: spec.Uses, Waits: spec.Waits,
		Began: j.began.Time(), Since: j.since.Time(), Seq: j.seq, Inputs: spec.Inputs,
	}
	if len(j.started) > 0 {
		data := decode[record.Started](j.started)
		r.Worker, r.Inputs = data.Worker, data.Inputs
	}
	switch {
	case len(j.ended) == 0:
	case j.state == transition.Built:
		data := decode[record.Finished](j.ended)
		r.Finished = &data
	case j.state == transition.JobFailed:
		data := decode[record.Failed](j.ended)
		r.Failed, r.Cause = &data, data.Cause
	case j.lost > 0 && !j.state.InFlight():
		r.Cause = decode[record.Lost](j.ended).Cause
	}
	return r
}

// Artifacts are what the jobs of a group have built last of each package, by the packages.
func (s *State) Artifacts(id string) (map[string]Built, error) {
	defer s.recorded()()
	g, err := s.known(id)
	if err != nil {
		return nil, err
	}
	all := map[string]Built{}
	for i := range g.jobs {
		if j := &g.jobs[i]; j.state == transition.Built {
			all[g.specs[i].Package] = Built{Group: g.id, Job: i + 1, Attempt: int(j.attempt), Seq: j.seq, Finished: decode[record.Finished](j.ended)}
		}
	}
	return all, nil
}

// Needed are the digests of the artifacts, and the hashes of what groups carry, that must be
// kept: of groups that have not ended, and of the newest and the newest complete group of
// each name.
func (s *State) Needed() (artifacts, objects []string) {
	defer s.recorded()()
	keep := map[*group]bool{}
	for _, of := range s.byName {
		keep[of[len(of)-1]] = true
		for _, g := range slices.Backward(of) {
			if g.state == transition.Complete {
				keep[g] = true
				break
			}
		}
	}
	for _, g := range s.groups {
		if g.state.Ended() && !keep[g] {
			continue
		}
		for _, object := range g.triggered.Carries {
			objects = append(objects, object)
		}
		for i := range g.jobs {
			if a := g.jobs[i].artifact; a != "" {
				artifacts = append(artifacts, a)
			}
			for _, u := range g.specs[i].Uses {
				if u.Artifact != "" {
					artifacts = append(artifacts, u.Artifact)
				}
			}
		}
	}
	slices.Sort(artifacts)
	slices.Sort(objects)
	return slices.Compact(artifacts), slices.Compact(objects)
}
