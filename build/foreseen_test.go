package build_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
)

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
