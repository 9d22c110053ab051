package environment

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
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
	steps := map[string]func(*world) tasks.Step{
		"terminating": func(w *world) tasks.Step { return w.begin("terminate 1 h1") },
		"starting": func(w *world) tasks.Step {
			w.done("terminate 1 h1")
			return w.begin("start 2 h1")
		},
		"confirming": func(w *world) tasks.Step {
			w.done("terminate 1 h1", "start 2 h1")
			w.after(10 * time.Minute)
			return w.begin("confirm 2 h1")
		},
	}
	commands := map[string]func(*world) []Command{
		"pause":    func(*world) []Command { return []Command{Pause{By: "ann"}} },
		"rollback": func(w *world) []Command { return []Command{Rollback{Revision: 1, Hosts: hostNames(5)}} },
		"next": func(w *world) []Command {
			return []Command{Update{Base: 2, Definition: defined(image("3"))}, Deploy{Revision: 3, Hosts: hostNames(5)}}
		},
		"again": func(w *world) []Command {
			return []Command{Rollback{Revision: 1, Hosts: hostNames(5)}, Deploy{Revision: 2, Hosts: hostNames(5)}}
		},
		"delete": func(*world) []Command { return []Command{Delete{TerminateTasks: true}} },
		"leave":  func(*world) []Command { return []Command{Delete{}} },
	}
	results := map[string]error{"well": nil, "badly": errors.New("no route")}
	for step, begin := range steps {
		for command, given := range commands {
			for result, cause := range results {
				for _, healthy := range []time.Duration{0, time.Minute} {
					if step == "confirming" && healthy == 0 {
						continue
					}
					t.Run(fmt.Sprintf("%s, %s, %s, %s", step, command, result, healthy), func(t *testing.T) {
						run := func(late bool) []string {
							w := deployed(t, 5, nil)
							w.update(func(d *definition.Definition) {
								image("2")(d)
								d.Deployment.MinHealthyTime = definition.Duration(healthy)
							}, hostNames(5))
							s := begin(w)
							other := newWorld(t) // which reads the command at once
							for _, e := range w.events {
								other.state.Apply(e)
							}
							var commanded []deploylog.Event
							for _, c := range given(w) {
								events, err := other.state.Propose(c, w.now)
								if err != nil {
									t.Fatal(err)
								}
								for i := range events {
									events[i].CreatedAt = w.now
									other.state.Apply(events[i])
								}
								commanded = append(commanded, events...)
							}
							ended := w.state.Completed(s, tasks.ProbeResult{Health: tasks.Healthy}, cause)
							if late {
								w.append(slices.Concat(commanded, ended)...)
							} else {
								w.append(slices.Concat(ended, commanded)...)
							}
							return w.outcome()
						}
						if got, want := run(true), run(false); !slices.Equal(got, want) {
							t.Errorf("it leads to\n%q, not\n%q", got, want)
						}
					})
				}
			}
		}
	}
}
