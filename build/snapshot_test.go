package build_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
)

// keepsSnapshot keeps a snapshot, from which processes begin from now on, and fails where it
// gives another state than all events.
func (s *simulated) keepsSnapshot() {
	s.t.Helper()
	s.follow()
	again := build.New(record.Entity)
	for _, e := range s.log {
		again.Apply(e)
	}
	var err error
	s.snapshot = must.Get(s.state.Snapshot())(s.t)
	restored := must.Get(build.Restore(record.Entity, s.snapshot))(s.t)
	kept, err := restored.Snapshot()
	require.NoError(s.t, err, "a snapshot of what was restored is another one")
	require.Equal(s.t, s.snapshot, kept, "a snapshot of what was restored is another one")
	if got, want := restored.Wake(), s.state.Wake(); !got.Equal(want) {
		s.t.Fatalf("restored, it is to be looked at at %s, not at %s", got, want)
	}
	if got, want := s.decided(restored), s.decided(again); !slices.Equal(got, want) {
		s.t.Fatalf("restored from a snapshot it decides\n%q\nand by all events\n%q", got, want)
	}
	require.Equal(s.t, again.Comparable(), restored.Comparable(), "restored from a snapshot it is another state than that of all events")
}

// free has workers with room for all, which do nothing so far.
type free struct{}

func (free) Worker(p record.Place) string { return p.Platform }
func (free) Resume(build.Task) bool       { return true }

// decided is what a state says is to be done now, and then whenever something may be done because
// time has passed, which is never recorded. Where the clock was set back, it is what is to be done
// once all has rested: who saw the later time lets what had rested go on.
func (s *simulated) decided(state *build.State) (steps []string) {
	from := s.now
	if s.back {
		from = from.Add(max(0, s.latest.Sub(from)) + time.Minute)
	}
	for now := from; ; now = state.Wake() {
		for step := range state.Decide(now, free{}) {
			step.Task.Uses = slices.Concat(step.Task.Uses) // nil without any
			text := must.Get(json.Marshal(step))(s.t)
			steps = append(steps, fmt.Sprintf("%s: %s", now, text))
		}
		if wake := state.Wake(); !wake.After(now) {
			return steps
		}
	}
}

func TestASnapshotIsOfWhatIsRecorded(t *testing.T) {
	w := newWorld(t)
	w.submit(group("base", spec(), spec(), spec(1, 2)))
	first := w.state.Ended(w.take("base-1", 1), built(build.Task{Inputs: "a"}), w.now)
	data := must.Get(w.state.Snapshot())(t)
	restored := must.Get(build.Restore(record.Entity, data))(t)
	assert.Equal(t, "Dispatched", must.Get(restored.Job("base-1", 1))(t).State.String())
	second := w.state.Ended(w.take("base-1", 2), built(build.Task{Inputs: "b"}), w.now)
	w.append(append(first, second...))
	w.decide()
	w.is("base-1", "Dispatching: B B D")
}

// Whatever a damaged snapshot says, it is refused or gives a state that can be asked.
func FuzzRestore(f *testing.F) {
	w := newWorld(f)
	w.must(group("base", spec(), spec(1001), spec(2, -1), spec(1, 3)))
	library := w.compilersOf("base-1")
	w.must(group("base", spec(), spec(1)))
	for _, data := range []any{nil, "", "AAAA", 1} {
		text := must.Get(json.Marshal(data))(f)
		f.Add([]byte(text), 0, byte(0))
	}
	w.end(missing(library), "base-1", 3)
	data := must.Get(w.state.Snapshot())(f)
	var whole []byte
	require.NoError(f, json.Unmarshal(data, &whole))
	for at := 0; at < len(whole); at += 5 {
		f.Add(whole, at, byte(1))
	}
	f.Add(whole, 0, byte(0))
	f.Fuzz(func(t *testing.T, data []byte, at int, change byte) {
		if at >= 0 && at < len(data) {
			data = bytes.Clone(data)
			data[at] ^= change
		}
		text := must.Get(json.Marshal(data))(t)
		s, err := build.Restore(record.Entity, text)
		if err != nil {
			return
		}
		ask(s)
		drive(s)
		ask(s)
	})
}

// compilersOf has the first two jobs of a group built, and returns the artifact of the first.
func (w *world) compilersOf(id string) string {
	w.decide()
	w.end(built, id, 1)
	w.end(built, id, 2)
	j := must.Get(w.state.Job(id, 1))(w.t)
	return j.Finished.Artifact
}

func TestACopyStaysAsItWas(t *testing.T) {
	w := newWorld(t)
	w.submit(group("base", spec(), spec(), spec(1), spec(2, 3)))
	w.end(always(lost), "base-1", 1)
	w.end(built, "base-1", 2)
	before := stateOf(t, w.state)
	c := w.state.Copy()
	w.must(group("base", spec(), spec(1)))
	w.now = w.now.Add(time.Minute)
	for w.decide(); len(w.doing) > 0; w.decide() {
		w.end(built, w.doing[0].Group, w.doing[0].Job)
	}
	w.must(group("other", spec()))
	require.NotEqual(t, before, stateOf(t, w.state), "nothing has changed")
	assert.Equal(t, before, string(must.Get(c.Encode())(t)))
}

// What was tried when ends were asked for is kept where exactly these are recorded, and not where
// some of them are missing, come in another order, are others, or are read back.
func TestEndsAreFoldedAsTheyAreRecorded(t *testing.T) {
	digest := func(c byte) string { return "sha256:" + string(slices.Repeat([]byte{c}, 64)) }
	results := func(f *fleet) (events []deploylog.Event) {
		for i, task := range f.doing {
			result := build.Result{Finished: &record.Finished{Artifact: digest('a' + byte(i)), Took: 1}}
			if i == 2 {
				result = build.Result{Failed: &record.Failed{Cause: "it is broken"}}
			}
			events = append(events, f.state.Ended(task, result, start)...)
		}
		return events
	}
	for name, recorded := range map[string]func([]deploylog.Event) []deploylog.Event{
		"as they are":      func(all []deploylog.Event) []deploylog.Event { return all },
		"in part":          func(all []deploylog.Event) []deploylog.Event { return all[:2] },
		"without a first":  func(all []deploylog.Event) []deploylog.Event { return all[1:] },
		"without a middle": func(all []deploylog.Event) []deploylog.Event { return append(slices.Clone(all[:1]), all[2:]...) },
		"backwards":        func(all []deploylog.Event) []deploylog.Event { slices.Reverse(all); return all },
		"none":             func([]deploylog.Event) []deploylog.Event { return nil },
		"of another artifact": func(all []deploylog.Event) []deploylog.Event {
			all[0].Data = bytes.Replace(all[0].Data, []byte(digest('a')), []byte(digest('f')), 1)
			return all
		},
		"without the failure": func(all []deploylog.Event) []deploylog.Event {
			return slices.DeleteFunc(all, func(e deploylog.Event) bool { return e.Target == record.Job("some-1", 3) })
		},
		"without data":       func(all []deploylog.Event) []deploylog.Event { all[0].Data = nil; return all },
		"of another attempt": func(all []deploylog.Event) []deploylog.Event { all[0].Attempt++; return all },
	} {
		t.Run(name, func(t *testing.T) {
			f, submit := newFleet(5), group("some", spec(), spec(), spec(), spec(), spec(1), spec(1, 2), spec(2, 3), spec(4))
			f.do(submit)
			f.begin()
			require.Len(t, f.doing, 4)
			head := f.seq
			events := recorded(results(f))
			f.append(events)

			// Whoever reads the log has never tried anything.
			read := newFleet(5)
			read.do(submit)
			read.begin()
			require.Equal(t, head, read.seq)
			for _, e := range events {
				e.Data = slices.Clone(e.Data)
				read.append([]deploylog.Event{e})
			}
			got, want := stateOf(t, f.state), stateOf(t, read.state)
			assert.True(t, got == want, "it is %s, read from the log %s", got, want)
			assert.True(t, f.state.Sums(), "its jobs are not counted once each")
		})
	}
}

func stateOf(t *testing.T, s *build.State) string {
	text := must.Get(s.Snapshot())(t)
	return string(text)
}

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
