package build_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
)

// Whatever jobs fail, are lost or canceled, whenever the process dies, and however many end
// at once: what is counted is what all events say, no job begins before what it needs, none
// after a cancel, none twice, and every group ends.
func TestRandomSchedules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := simulate(t)
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			s.step()
			if n%5 == 0 {
				s.agrees()
			}
		}
		s.finish()
	})
}

func (s *simulated) step() {
	switch kind := rapid.IntRange(0, 19).Draw(s.t, "kind"); kind {
	case 0, 1:
		s.person(s.submit())
	case 2:
		s.person(build.Cancel{Group: s.some(), By: "ann"})
	case 3, 4:
		s.person(build.Retry{Group: s.some(), FailedOnly: kind == 3})
	case 5:
		s.crash()
	case 6:
		s.pass(rapid.IntRange(1, 2).Draw(s.t, "dies"))
	case 7:
		s.end(2, false, true, false)
	case 8:
		s.slots[amd], s.slots[arm] = rapid.IntRange(0, 4).Draw(s.t, "amd"), rapid.IntRange(0, 2).Draw(s.t, "arm")
	case 9:
		by := time.Duration(rapid.SampledFrom([]int64{-10, 1, 5, 100}).Draw(s.t, "time")) * time.Second
		if s.back = s.back || by < 0; by < 0 && s.latest.Before(s.now) {
			s.latest = s.now
		}
		s.now = s.now.Add(by)
	case 10:
		s.tooLate()
	case 11, 12, 13:
		s.end(rapid.IntRange(1, 4).Draw(s.t, "number"), false, kind == 11, true)
	case 14:
		s.explained()
	default:
		s.pass(0)
	}
}

// tooLate asks about a task whose end is recorded.
func (s *simulated) tooLate() {
	s.follow()
	for _, t := range s.old {
		if j, err := s.state.Job(t.Group, t.Job); err == nil && (j.Attempt != t.Attempt || !j.State.InFlight()) {
			require.Empty(s.t, s.state.Ended(t, built(t), s.now))
		}
	}
}

// finish lets all be done, with enough workers.
func (s *simulated) finish() {
	s.slots = map[string]int{amd: 5, arm: 5}
	for round := 0; ; round++ {
		s.now = s.now.Add(100 * time.Second)
		for s.pass(0) {
			continue
		}
		if len(s.doing) == 0 {
			break
		}
		require.LessOrEqual(s.t, round, 5000, "it does not end")
		s.end(3, true, true, true)
	}
	s.agrees()
	for _, g := range s.state.Groups() {
		require.True(s.t, g.State.Ended(), "at the end group %s is %s", g.ID, g.State)
		if g.State == transition.Complete && g.Built != g.Jobs {
			s.t.Fatalf("group %s is complete with %d of %d jobs", g.ID, g.Built, g.Jobs)
		}
	}
	require.True(s.t, s.state.Idle(nil), "all groups have ended, and it is not idle")
	if s.settled != nil && s.late == 0 && s.faults == 0 {
		s.t.Fatalf("consequences were not recorded with what caused them: %s", s.settled)
	}
	s.kept()
}

// kept checks the log: nothing is dispatched after a cancel, and nothing that is built.
func (s *simulated) kept() {
	canceled, built := map[string]bool{}, map[string]bool{}
	for _, e := range s.log {
		target := string(e.Target)
		switch e.Name {
		case record.GroupCanceling:
			canceled[e.Deployment] = true
		case record.GroupRetried:
			canceled[e.Deployment] = false
		case record.JobFinished:
			built[target] = true
		case record.JobSpoiled:
			built[target] = false
		case record.JobStarted:
			require.False(s.t, canceled[e.Deployment], "%s is dispatched after its group was canceled", target)
			require.False(s.t, built[target], "%s is dispatched after it was built", target)
		}
	}
}
