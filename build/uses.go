package build

import (
	"slices"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
)

// task is a job as far as it is the same for all of its attempts. There may be room for what
// it uses.
func (s *State) task(t *Task, g *group, i int32, room []Dependency) {
	spec, j := &g.specs[i], &g.jobs[i]
	*t = Task{
		Group: g.id, Job: int(i) + 1, Attempt: int(j.attempt), Name: g.name, Package: spec.Package, Version: spec.Version, Pass: spec.Pass,
		Place: s.places[g.places[g.placeOf(i)]], Carries: g.triggered.Carries, Recipe: spec.Recipe, Commit: g.triggered.Commit, Source: g.triggered.Source, Artifacts: g.triggered.Artifacts,
		Uses: g.dependencies(i, room),
	}
}

// dispatched is the task of a job that a worker is to have.
func (s *State) dispatched(t *Task, g *group, i int32, worker string) {
	s.task(t, g, i, s.uses.Take(len(g.specs[i].Uses), usesBlock))
	t.Attempt++
	t.Worker, t.Inputs = worker, s.inputs(g, i)
	t.Reuse = s.reuse(g, t.Inputs)
}

// resumed is the task of a job that a worker has.
func (s *State) resumed(g *group, i int32) (t Task) {
	s.task(&t, g, i, nil)
	data := decode[record.Started](g.jobs[i].started)
	t.Worker, t.Inputs, t.Canceling = data.Worker, data.Inputs, g.jobs[i].state == transition.CancelPending
	t.Reuse = s.reuse(g, t.Inputs)
	return t
}

// dependencies are all that a job uses, each once. There may be room for them.
func (g *group) dependencies(i int32, room []Dependency) []Dependency {
	spec := &g.specs[i]
	all := slices.Grow(room[:0], len(spec.Uses))
	for k := range spec.Uses {
		d := g.dependency(&spec.Uses[k])
		d.Direct = true
		all = append(all, d)
	}
	first := len(all)
	var seen map[key]bool
	for at := 0; at < len(all); at++ { // what these need to run, and so on
		if all[at].Job == 0 || all[at].Job > len(g.jobs) || !g.jobs[all[at].Job-1].runs {
			continue
		}
		uses := g.specs[all[at].Job-1].Uses
		for k := range uses {
			if !uses[k].Run {
				continue
			}
			if seen == nil {
				seen = make(map[key]bool, first)
				for _, d := range all {
					seen[d.key()] = true
				}
			}
			if d := g.dependency(&uses[k]); !seen[d.key()] {
				seen[d.key()] = true
				all = append(all, d)
			}
		}
	}
	return all
}

// complete reports whether all that a job uses is Built, also what that needs to run. Where an
// artifact is found missing, and that is not applied yet, this is not in what is counted.
func (g *group) complete(i int32) bool {
	return !slices.ContainsFunc(g.dependencies(i, nil), func(d Dependency) bool { return d.Job > 0 && g.jobs[d.Job-1].state != transition.Built })
}

// key is what makes two dependencies one.
type key struct {
	job            int
	name, artifact string
}

func (d *Dependency) key() key {
	if d.Job > 0 {
		return key{job: d.Job}
	}
	return key{name: d.Package, artifact: d.Artifact}
}

func (g *group) dependency(u *record.Use) Dependency {
	d := Dependency{Package: u.Package, Artifact: u.Artifact, Run: u.Run}
	if u.Job > 0 && u.Job <= len(g.jobs) {
		d.Job, d.Pass, d.Artifact = u.Job, int(g.jobs[u.Job-1].pass), g.jobs[u.Job-1].artifact
	}
	return d
}
