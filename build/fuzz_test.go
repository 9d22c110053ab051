package build_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
)

// Whatever events there are, in whatever order, they are applied, and whatever is asked then
// is answered. What is decided then is recorded, until there is nothing or too much.
func FuzzApply(f *testing.F) {
	w := newWorld(f)
	c := group("base", spec(), spec(1001), spec(2, -1), spec(1, 3))
	c.Unbuildable = []record.Unbuildable{{Package: "x", Cause: "gone"}}
	w.submit(c)
	w.end(built, "base-1", 1)
	w.end(always(lost), "base-1", 2)
	w.must(build.Cancel{Group: "base-1"})
	w.must(build.Retry{Group: "base-1"})
	w.decide()
	w.end(always(failed), "base-1", 2)
	text, _ := json.Marshal(w.log)
	f.Add(text)
	f.Add([]byte(`[{"target":"group/a-1","event":"group-triggered"},{"target":"group/a-1","event":"group-created","data":{"jobs":-1}},` +
		`{"target":"group/a-1","event":"group-jobs-created","data":{"from":1,"jobs":[{"uses":[{"job":2},{"job":-5,"run":true},{"job":1}],"waits":"1,3"},{"uses":[{"job":1,"run":true}],"place":7}]}},` +
		`{"target":"group/a-1","event":"group-queued"},{"target":"group/a-1","event":"group-started"},{"target":"group/a-1","event":"group-jobs-eligible","data":{"jobs":"1-2"}},` +
		`{"target":"job/a-1/2","event":"job-spoiled"},{"target":"group/a-1","event":"group-canceling"}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var events []deploylog.Event
		if json.Unmarshal(text, &events) != nil {
			return
		}
		s := build.New(record.Entity)
		for i, e := range events {
			e.Seq = int64(i + 1)
			s.Apply(e)
		}
		ask(s)
		drive(s)
		ask(s)
		require.True(t, s.Sums(), "the counts of jobs do not sum up")
	})
}

// ask asks all that people can.
func ask(s *build.State) {
	workers := func(record.Place) []build.Worker { return []build.Worker{{Name: "w", Slots: 1}} }
	s.Explain("", start, workers)
	s.Needed()
	s.Idle(nil)
	s.Wake()
	for _, g := range s.Groups() {
		s.Report(g.ID)
		s.Jobs(g.ID)
		s.Artifacts(g.ID)
		s.Explain(record.Group(g.ID), start, nil)
		s.FindJob(g.ID, "p1#2")
		s.Forecast(g.ID, start, func(record.Place) int { return 2 })
		s.Propose(build.Cancel{Group: g.ID}, start)
		s.Propose(build.Retry{Group: g.ID, FailedOnly: true}, start)
	}
}

// always1 is a worker that has room for everything.
type always1 struct{}

// These implement build.Can.
func (always1) Worker(record.Place) string { return "w" }
func (always1) Resume(build.Task) bool     { return true }

// Events as nobody records them change nothing that must not change, and stop nobody.
func TestArbitraryEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := build.New(record.Entity)
		draw := func(to int, what string) int { return rapid.IntRange(0, to).Draw(t, what) }
		names := record.EventNames()
		for seq := range draw(80, "events") {
			id := []string{"a-1", "b-1"}[draw(1, "id")]
			e := deploylog.Event{Seq: int64(seq + 1), Deployment: id, Target: record.Group(id), Attempt: draw(3, "attempt"), CreatedAt: start.Add(time.Duration(seq) * time.Second)}
			if seq < 4 { // most begin as groups do
				e.Name = names[seq]
			} else {
				e.Name = names[draw(len(names)-1, "event")]
			}
			if draw(1, "of a job") == 1 && seq > 3 {
				e.Target = record.Job(id, 1+draw(4, "job"))
			}
			e.Data = []byte(rapid.SampledFrom(arbitrary).Draw(t, "data"))
			if e.Name == record.JobsCreated && draw(3, "jobs") > 0 {
				e.Data = []byte(arbitrary[0])
			}
			s.Apply(e)
		}
		drive(s)
		ask(s)
		require.True(t, s.Sums(), "the counts of jobs do not sum up")
	})
}

var arbitrary = []string{
	`{"from":1,"jobs":[{"package":"a"},{"package":"b","uses":[{"job":1,"run":true}]},{"package":"c","uses":[{"job":2,"run":true},{"job":2}],"waits":"1-3,9"},{"package":"d","uses":[{"job":4}],"place":-3}]}`,
	`{"jobs":"1-4"}`, `{"jobs":"2,900000"}`, `{"jobs":2,"places":[{"platform":"linux/amd64"}]}`, `{"artifact":"x","inputs":"y","reused":"job/a-1/1"}`, `{"artifact":"x","inputs":"y"}`,
	`{"cause":"z","spoiled":["x",""],"mistaken":true}`, `{"failed_only":true}`, `{"fail_fast":true,"max_lost":1}`, ``, `null`, `[]`, `{"worker":"w","inputs":"y"}`,
}

// drive does what may be done, for a while.
func drive(s *build.State) {
	for round := range 20 {
		var steps []build.Step
		for step := range s.Decide(start.Add(time.Duration(round)*time.Hour), always1{}) {
			if steps = append(steps, step); len(steps) > 100 {
				break
			}
		}
		for _, step := range steps {
			for _, e := range step.Events {
				s.Apply(e)
			}
			if step.Kind == build.Dispatch || step.Kind == build.Resume {
				results := []build.Result{built(step.Task), failed, lost, canceled, {}}
				for _, e := range s.Ended(step.Task, results[(round+step.Task.Job)%len(results)], start) {
					s.Apply(e)
				}
			}
		}
	}
}
