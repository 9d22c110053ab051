package environment

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
)

// outcome is how all tasks are, and what may be done now and later.
func (w *world) outcome() (all []string) {
	for _, h := range w.state.hosts {
		for _, t := range h.Tasks {
			all = append(all, fmt.Sprintf("%s: %d is %s, attempt %d for %s, failed %d times: %s", h.Name, t.Revision, t.Status, t.Attempt, t.Deployment, t.Failures, t.Cause))
		}
	}
	for range 3 {
		for _, s := range w.steps() {
			all = append(all, fmt.Sprintf("%s: %s %d, attempt %d for %s", s.Host, s.Kind, s.Revision, s.Attempt, s.Deployment))
		}
		w.after(time.Minute)
	}
	return all
}

// A controller may judge how a step ended before it has read a command that is already
// in the log. That leads where it leads when the step has ended right before the command.
func TestAResultThatIsJudgedBeforeACommandIsReadIsRightAllTheSame(t *testing.T) {
	begins := map[string]func(*world) tasks.Step{
		"terminating": func(w *world) tasks.Step { return w.begin("terminate 1 h1") },
		"starting": func(w *world) tasks.Step {
			w.done("terminate 1 h1")
			return w.begin("start 2 h1")
		},
		"confirming": func(w *world) tasks.Step {
			w.replaced(1, 2, "h1")
			w.after(10 * time.Minute)
			return w.begin("confirm 2 h1")
		},
	}
	back := Rollback{Revision: 1, Hosts: hostNames(5)}
	commands := map[string][]Command{
		"pause":    {Pause{By: "ann"}},
		"rollback": {back},
		"next":     {Update{Base: 2, Definition: defined(image("3"))}, Deploy{Revision: 3, Hosts: hostNames(5)}},
		"again":    {back, Deploy{Revision: 2, Hosts: hostNames(5)}},
		"delete":   {Delete{TerminateTasks: true}},
		"leave":    {Delete{}},
	}
	run := func(t *testing.T, begin func(*world) tasks.Step, given []Command, cause error, healthy time.Duration, late bool) []string {
		w := deployed(t, 5, nil)
		w.update(func(d *definition.Definition) {
			image("2")(d)
			d.Deployment.MinHealthyTime = definition.Duration(healthy)
		}, hostNames(5))
		s := begin(w)
		other := &world{T: t, state: New(w.state.Name()), events: slices.Clone(w.events), now: w.now, unique: maps.Clone(w.unique)}
		other.anew()
		for _, c := range given {
			other.propose(c) // which it reads at once
		}
		commanded := other.events[len(w.events):]
		ended := w.state.Completed(s, tasks.ProbeResult{Health: tasks.Healthy}, cause)
		if late {
			w.append(slices.Concat(commanded, ended)...)
		} else {
			w.append(slices.Concat(ended, commanded)...)
		}
		return w.outcome()
	}
	for step, begin := range begins {
		for command, given := range commands {
			for _, cause := range []error{nil, errors.New("no route")} {
				for _, healthy := range []time.Duration{0, time.Minute} {
					if step == "confirming" && healthy == 0 {
						continue
					}
					t.Run(fmt.Sprintf("%s, %s, %v, %s", step, command, cause, healthy), func(t *testing.T) {
						assert.Equal(t, run(t, begin, given, cause, healthy, false), run(t, begin, given, cause, healthy, true))
					})
				}
			}
		}
	}
}
