package build_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
)

// simulated is a log that several write to, containers, and a process that dispatches jobs.
type simulated struct {
	t      *rapid.T
	log    []deploylog.Event
	unique map[string]int // events, by what they are unique by
	now    time.Time
	back   bool      // the clock was set back
	latest time.Time // that it was before that
	slots  map[string]int

	state      *build.State // of the process
	seen       int          // events that it has applied
	doing      []build.Task // by it
	containers map[string]build.Task
	old        []build.Task // whose end was recorded

	snapshot json.RawMessage // of the state, as it was at some time

	missing string   // the artifact that was last found to be
	uneven  bool     // equal inputs do not always give equal artifacts
	settled []string // events
	late    int      // results that were recorded without the newest events
	faults  int      // whatever may leave consequences to settle
}

func simulate(t *rapid.T) *simulated {
	s := &simulated{
		t: t, unique: map[string]int{}, now: start, slots: map[string]int{amd: 2, arm: 1}, containers: map[string]build.Task{},
		uneven: rapid.IntRange(0, 3).Draw(t, "uneven") == 0,
	}
	s.crash()
	return s
}

// crash ends the process, and begins another.
func (s *simulated) crash() {
	s.state, s.seen, s.doing = build.New(record.Entity), 0, nil
	if s.snapshot != nil && rapid.Bool().Draw(s.t, "from a snapshot") {
		restored, err := build.Restore(record.Entity, s.snapshot)
		require.NoError(s.t, err)
		s.state, s.seen = restored, int(restored.Head())
	}
	s.follow()
}

func (s *simulated) follow() {
	for ; s.seen < len(s.log); s.seen++ {
		s.state.Apply(s.log[s.seen])
	}
}

// append records events, of whoever.
func (s *simulated) append(events []deploylog.Event, fact bool) {
	before := len(s.log)
	for _, e := range events {
		require.NoError(s.t, e.Validate(), "%s of %s", e.Name, e.Target)
		if s.there(e) {
			require.True(s.t, fact, "%s of %s, attempt %d, is in the log already", e.Name, e.Target, e.Attempt)
			s.single(events, before)
			return
		}
		s.note(e)
	}
}

// single records facts one by one, without those that are there already.
func (s *simulated) single(events []deploylog.Event, before int) {
	for _, e := range s.log[before:] {
		delete(s.unique, uniqueness(e))
	}
	s.log = s.log[:before]
	s.faults++
	for _, e := range events {
		if !s.there(e) {
			s.note(e)
		}
	}
}

func uniqueness(e deploylog.Event) string {
	return fmt.Sprint(e.Deployment, " ", e.Target, " ", e.Name, " ", e.Attempt)
}

func (s *simulated) there(e deploylog.Event) bool {
	_, there := s.unique[uniqueness(e)]
	return there
}

func (s *simulated) note(e deploylog.Event) {
	s.unique[uniqueness(e)] = len(s.log)
	e.Seq, e.CreatedAt = int64(len(s.log)+1), s.now
	s.log = append(s.log, e)
}

// Worker implements build.Can.
func (s *simulated) Worker(p record.Place) string {
	busy := 0
	for _, t := range s.doing {
		if t.Place.Platform == p.Platform {
			busy++
		}
	}
	if busy < s.slots[p.Platform] {
		return p.Platform
	}
	return ""
}

// Resume implements build.Can.
func (s *simulated) Resume(t build.Task) bool {
	return !slices.ContainsFunc(s.doing, func(o build.Task) bool { return same(o, t) })
}

func same(a, b build.Task) bool {
	return a.Group == b.Group && a.Job == b.Job && a.Attempt == b.Attempt
}

func containerOf(t build.Task) string { return fmt.Sprint(t.Target(), " ", t.Attempt) }

// person gives a command, and does not care for the process.
func (s *simulated) person(c build.Command) {
	state := build.New(record.Entity)
	for _, e := range s.log {
		state.Apply(e)
	}
	events, err := state.Propose(c, s.now)
	if refused := (*refusal.Error)(nil); err != nil && !errors.As(err, &refused) {
		s.t.Fatalf("%T is refused without a code: %v", c, err)
	}
	if err == nil {
		s.append(events, false)
	}
}

// pass decides, and begins what may be done, unless the process dies before or after that is
// recorded.
func (s *simulated) pass(dies int) (any bool) {
	s.follow()
	n := fold(s.log)
	var steps []build.Step
	for step := range s.state.Decide(s.now, s) {
		steps = append(steps, step)
		s.promised(n, step)
		if step.Kind == build.Dispatch || step.Kind == build.Resume {
			s.doing = append(s.doing, step.Task)
		}
	}
	s.ordered(n, steps)
	if dies == 1 {
		s.crash()
		return true
	}
	for _, step := range steps {
		s.append(step.Events, false)
	}
	if dies == 2 {
		s.crash()
		return true
	}
	for _, step := range steps {
		if step.Kind == build.Dispatch {
			s.containers[containerOf(step.Task)] = step.Task
		}
		if step.Kind == build.Settle {
			for _, e := range step.Events {
				s.settled = append(s.settled, fmt.Sprintf("%s %s %s", e.Target, e.Name, e.Data))
			}
		}
	}
	s.follow()
	return len(steps) > 0
}

// end records how some of what is done has ended, at once.
func (s *simulated) end(number int, good, follows, recorded bool) {
	if follows {
		s.follow()
	} else if s.seen < len(s.log) {
		s.late++
	}
	var events []deploylog.Event
	for range number {
		if len(s.doing) == 0 {
			break
		}
		k := rapid.IntRange(0, len(s.doing)-1).Draw(s.t, "ended")
		t := s.doing[k]
		s.doing = slices.Delete(s.doing, k, k+1)
		events = append(events, s.state.Ended(t, s.result(t, good), s.now)...)
		delete(s.containers, containerOf(t))
		s.old = append(s.old, t)
	}
	if !recorded {
		s.crash()
		return
	}
	s.append(events, true)
	s.follow()
}

// result is how a task ends.
func (s *simulated) result(t build.Task, good bool) build.Result {
	if _, ok := s.containers[containerOf(t)]; !ok {
		return build.Result{Lost: &record.Lost{Cause: "there is no container"}}
	}
	if t.Canceling || s.canceling(t) && rapid.Bool().Draw(s.t, "stopped") {
		return canceled
	}
	kind := rapid.IntRange(0, 11).Draw(s.t, "result")
	if !good {
		if r, bad := s.trouble(t, kind); bad {
			return r
		}
	}
	if t.Reuse != nil {
		return build.Result{Finished: &record.Finished{Artifact: t.Reuse.Finished.Artifact, Reused: t.Reuse.Target()}}
	}
	artifact := digest(t.Inputs)
	if s.uneven && kind > 8 {
		artifact += containerOf(t)
	}
	return build.Result{Finished: &record.Finished{Artifact: artifact, Took: time.Duration(kind) * time.Second}}
}

// trouble is how a task ends of a kind that does not end well.
func (s *simulated) trouble(t build.Task, kind int) (r build.Result, bad bool) {
	missing := func(d build.Dependency) bool { return d.Artifact == s.missing }
	switch {
	case kind > 6 && slices.ContainsFunc(t.Uses, missing): // of several that run at once
		s.faults++
		return build.Result{Lost: &record.Lost{Cause: "it is gone, too", Spoiled: []string{s.missing}}}, true
	case kind == 0:
		return build.Result{Failed: &record.Failed{Cause: "exit 1"}}, true
	case kind == 1:
		return lost, true
	case kind == 2 && t.Reuse != nil:
		return build.Result{Lost: &record.Lost{Cause: "it is altered", Mistaken: true, Spoiled: []string{t.Reuse.Finished.Artifact}}}, true
	case kind == 3 && len(t.Uses) > 0:
		d := t.Uses[rapid.IntRange(0, len(t.Uses)-1).Draw(s.t, "gone")]
		s.missing = d.Artifact
		s.faults++
		return build.Result{Lost: &record.Lost{Cause: "it is gone", Spoiled: []string{d.Artifact}}}, true
	}
	return r, false
}

// canceling reports whether the process knows that a task is to be stopped.
func (s *simulated) canceling(t build.Task) bool {
	j, err := s.state.Job(t.Group, t.Job)
	return err == nil && j.State == transition.CancelPending
}

// submit makes a group of a few jobs, of a few kinds of inputs.
func (s *simulated) submit() build.Submit {
	draw := func(to int, what string) int { return rapid.IntRange(0, to).Draw(s.t, what) }
	c := build.Submit{Triggered: record.Triggered{Name: []string{"base", "apps"}[draw(1, "name")], MaxLost: draw(2, "max lost"), FailFast: draw(3, "fail fast") == 0, NoReuse: draw(4, "no reuse") == 0}}
	c.Places = []record.Place{{Platform: amd}, {Platform: arm}}
	if draw(9, "unbuildable") == 0 {
		c.Unbuildable = []record.Unbuildable{{Package: "x", Cause: "its plan is gone"}}
	}
	for i := range 1 + draw(9, "jobs") {
		spec := record.JobSpec{Package: fmt.Sprint("p", i), Inputs: fmt.Sprint(draw(3, "inputs")), Place: draw(4, "place") / 4}
		for k := range i {
			switch draw(5, "needs") {
			case 0:
				spec.Uses = append(spec.Uses, record.Use{Package: fmt.Sprint("p", k), Job: k + 1})
			case 1:
				spec.Uses = append(spec.Uses, record.Use{Package: fmt.Sprint("p", k), Job: k + 1, Run: true})
			case 2:
				spec.Waits = append(spec.Waits, k+1)
			}
		}
		c.Jobs = append(c.Jobs, spec)
	}
	return c
}

// some is the id of a group, "" without one.
func (s *simulated) some() string {
	ids := map[string]bool{}
	for _, e := range s.log {
		ids[e.Deployment] = true
	}
	if len(ids) == 0 {
		return ""
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(ids))).Draw(s.t, "group")
}
