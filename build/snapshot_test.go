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

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
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
	s.snapshot, err = s.state.Snapshot()
	require.NoError(s.t, err)
	restored, err := build.Restore(record.Entity, s.snapshot)
	require.NoError(s.t, err)
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
			text, err := json.Marshal(step)
			require.NoError(s.t, err)
			steps = append(steps, fmt.Sprintf("%s: %s", now, text))
		}
		if wake := state.Wake(); !wake.After(now) {
			return steps
		}
	}
}

// What is asked about and not recorded yet is not in a snapshot, and not lost by it.
func TestASnapshotIsOfWhatIsRecorded(t *testing.T) {
	w := newWorld(t)
	w.submit(group("base", spec(), spec(), spec(1, 2)))
	first := w.state.Ended(w.take("base-1", 1), built(build.Task{Inputs: "a"}), w.now)
	data, err := w.state.Snapshot()
	require.NoError(t, err)
	restored, err := build.Restore(record.Entity, data)
	require.NoError(t, err)
	if j, err := restored.Job("base-1", 1); err != nil || j.State.String() != "Dispatched" {
		t.Errorf("the job is %v, %v", j.State, err)
	}
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
		text, err := json.Marshal(data)
		require.NoError(f, err)
		f.Add([]byte(text), 0, byte(0))
	}
	w.end(missing(library), "base-1", 3)
	data, err := w.state.Snapshot()
	require.NoError(f, err)
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
		text, err := json.Marshal(data)
		require.NoError(t, err)
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
	j, err := w.state.Job(id, 1)
	require.NoError(w.t, err)
	return j.Finished.Artifact
}

// A copy stays what it was, whatever becomes of the state.
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
	if after, err := c.Encode(); err != nil || string(after) != before {
		t.Errorf("the copy has changed: %v", err)
	}
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
			if got, want := stateOf(t, f.state), stateOf(t, read.state); got != want {
				t.Errorf("it is %s, read from the log %s", got, want)
			}
			assert.True(t, f.state.Sums(), "its jobs are not counted once each")
		})
	}
}

// stateOf is all of a state as a text.
func stateOf(t *testing.T, s *build.State) string {
	t.Helper()
	text, err := s.Snapshot()
	require.NoError(t, err)
	return string(text)
}
