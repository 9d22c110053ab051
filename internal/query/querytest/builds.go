package querytest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/deploylog"
)

// Groups are the build groups of a log, which a test works off by hand.
type Groups struct {
	*builds.Builds
	Workers []string // of one slot each

	ctx     context.Context
	running []build.Task
}

// NewGroups works off the build groups of a log with so many workers, w1 and so on.
func NewGroups(ctx context.Context, log deploylog.Log, now func() time.Time, workers int) *Groups {
	g := &Groups{Builds: builds.New(log, now), ctx: ctx}
	for i := range workers {
		g.Workers = append(g.Workers, fmt.Sprintf("w%d", i+1))
	}
	return g
}

// Chain are jobs of packages a, b, c … each of which uses the one before it.
func Chain(names ...string) (jobs []record.JobSpec) {
	for i, name := range names {
		j := record.JobSpec{Package: name, Inputs: "inputs of " + name}
		if i > 0 {
			j.Uses = []record.Use{{Package: names[i-1], Job: i}}
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// Submit has a group of jobs built, all of which any worker serves.
func (g *Groups) Submit(t record.Triggered, jobs ...record.JobSpec) error {
	_, err := g.Command(g.ctx, build.Submit{Triggered: t, Places: []record.Place{{Platform: "linux/amd64"}}, Jobs: jobs})
	return err
}

// Dispatch has the workers that are free begin what may begin, and returns all that runs.
func (g *Groups) Dispatch() ([]build.Task, error) {
	for {
		var step *build.Step
		_, err := g.Change(g.ctx, record.Entity, true, func(s *build.State) ([]deploylog.Event, error) {
			for next := range s.Decide(g.Now(), free{g}) {
				if next.Kind != build.Resume {
					step = &next
					return next.Events, nil
				}
			}
			return nil, nil
		})
		if err != nil || step == nil {
			return g.running, err
		}
		if step.Kind == build.Dispatch {
			g.running = append(g.running, step.Task)
		}
	}
}

// free is the workers that have nothing to do.
type free struct{ *Groups }

// Worker implements build.Can.
func (f free) Worker(record.Place) string {
	for _, name := range f.Workers {
		if !slices.ContainsFunc(f.running, func(t build.Task) bool { return t.Worker == name }) {
			return name
		}
	}
	return ""
}

// Resume implements build.Can.
func (f free) Resume(build.Task) bool { return false }

// End records how the job of a number that runs has ended.
func (g *Groups) End(job int, r build.Result) error {
	i := slices.IndexFunc(g.running, func(t build.Task) bool { return t.Job == job })
	if i < 0 {
		return fmt.Errorf("job %d does not run", job)
	}
	t := g.running[i]
	g.running = slices.Delete(g.running, i, i+1)
	_, err := g.Change(g.ctx, record.Entity, true, func(s *build.State) ([]deploylog.Event, error) {
		return s.Ended(t, r, g.Now()), nil
	})
	return err
}

// Built is the result of a job that took so long.
func Built(took time.Duration) build.Result {
	return build.Result{Finished: &record.Finished{Artifact: "sha256:0a", Size: 4 << 10, Files: 3, Took: took, Metadata: map[string]string{"lines": "12"}}}
}
