package querytest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
)

// shop is an environment whose log is being written.
type shop struct {
	*journal
	state *environment.State
	hosts []string
}

func newShop(j *journal, hosts int) *shop {
	s := &shop{journal: j, state: environment.New(Environment), hosts: names("web", hosts)}
	j.apply = s.state.Apply
	return s
}

func (s *shop) definition(n int) *definition.Definition {
	return &definition.Definition{
		Name: Environment, Type: definition.Daemon,
		Task:          definition.TaskSpec{Manifest: "web.yaml", Vars: map[string]any{"image": fmt.Sprint("web:", n)}},
		InstanceGroup: definition.InstanceGroup{Query: "attribute:stack == prod"},
		Deployment: definition.Configuration{
			Method: definition.Replace, MinHealthyPercent: 75, MaxOver: 1,
			HealthyDeadline: definition.Duration(5 * time.Minute), ProgressDeadline: definition.Duration(10 * time.Minute), Drift: definition.RepairDrift,
		},
	}
}

func (s *shop) do(c environment.Command) { s.record(s.state.Propose(c, s.now)) }

// deploy rolls revisions out to the hosts, of which the last stays under way.
func (s *shop) deploy(revisions int) {
	s.do(environment.Create{Definition: s.definition(1), By: "ada"})
	for n := 1; n <= revisions; n++ {
		if n > 1 {
			s.do(environment.Update{Base: n - 1, Definition: s.definition(n), By: "ada"})
		}
		s.do(environment.Deploy{Revision: n, Hosts: s.hosts, By: []string{"ada", "bob", "ci"}[n%3], Reason: []string{"", Hostile}[n%2]})
		done := len(s.hosts)
		if n == revisions {
			done = done * 2 / 5
		}
		s.rollOut(done, n == revisions)
	}
}

// rollOut does what may be done; where some fail, only until so many hosts have the new
// task, and every seventh of them fails.
func (s *shop) rollOut(done int, someFail bool) {
	for ended := 0; !someFail || ended < done; {
		var steps []tasks.Step
		for step := range s.state.Decide(s.now, environment.Can{Disrupt: true}) {
			if steps = append(steps, step); len(steps) == 10 || step.Kind == tasks.Record {
				break
			}
		}
		if len(steps) == 0 {
			return
		}
		for _, step := range steps {
			s.record(step.Events, nil)
		}
		for _, step := range steps {
			at := slices.Index(s.hosts, step.Host)
			switch {
			case step.Kind == tasks.Record:
			case someFail && step.Kind == tasks.Start && at%7 == 3:
				s.record(s.state.Completed(step, tasks.ProbeResult{}, errors.New(strings.Repeat(Long, 30)+"\n"+Hostile+strings.Repeat("\nline of output", 30))), nil)
			default:
				s.record(s.state.Completed(step, tasks.ProbeResult{Health: tasks.Healthy}, nil), nil)
				if step.Kind == tasks.Start {
					ended++
				}
			}
		}
	}
}
