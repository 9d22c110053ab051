package runs_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
)

// What is known of a resource is what a look through the whole log comes to, whenever it is asked for.
func TestThePastIsWhatTheLogSaysOfIt(t *testing.T) {
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		log := &counted{Log: logtest.NewMemory().Open()}
		past := runs.PastOf(runs.Options{Log: log, Pasts: runs.NewPasts(log)})
		var events []deploylog.Event
		for i := range rapid.IntRange(1, 40).Draw(t, "events") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			e := deploylog.Event{Deployment: fmt.Sprint("run", i), Attempt: 1, Target: deploylog.Target("action/" + name + "/set")}
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				e.Name = e.Target.Started()
			case 1:
				e.Name = e.Target.Succeeded()
			case 2:
				e.Name, e.Data = e.Target.Failed(), []byte(`{"abandoned":true}`)
			case 3:
				e.Name = e.Target.Failed()
			case 4:
				e.Target = deploylog.Target("resource/" + name)
				e.Name = e.Target.Succeeded()
			case 5:
				e.Target, e.Name = deploylog.Target("resource/"+name), runs.EventResourceMoved
				e.Data = []byte(`{"from":"` + rapid.SampledFrom(names).Draw(t, "from") + `"}`)
			}
			appended, err := log.Append(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, appended...)
			if !rapid.Bool().Draw(t, "asked") {
				continue
			}
			for _, name := range names {
				got, err := past(t.Context(), name, false)
				if want := interrupted(events, name); err != nil || got.Interrupted != want {
					t.Errorf("%s is interrupted: %t (%v), want %t", name, got.Interrupted, err, want)
				}
			}
		}
		if log.read > len(events) {
			t.Errorf("%d events were read of %d", log.read, len(events))
		}
	})
}

// interrupted is what the events say, the last first, where no run is at work.
func interrupted(events []deploylog.Event, name string) bool {
	for i := len(events) - 1; i >= 0; i-- {
		switch e := events[i]; e.Target {
		case deploylog.Target("action/" + name + "/set"):
			return e.Name == e.Target.Started() || e.Name == e.Target.Failed() && runs.DataOf(e).Abandoned
		case deploylog.Target("resource/" + name):
			if e.Name == e.Target.Succeeded() {
				return false
			}
			return interrupted(events[:i], runs.DataOf(e).From)
		}
	}
	return false
}

// counted counts the events that are read of a log.
type counted struct {
	deploylog.Log
	read int
}

// Read implements deploylog.Log.
func (c *counted) Read(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		for e, err := range c.Log.Read(ctx, f) {
			c.read++
			if !yield(e, err) {
				return
			}
		}
	}
}
