package looks

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
)

// fake is a look that counts how often it was made.
type fake struct {
	found  tasks.ProbeResult
	err    error
	differ bool // it would look at something else by now
	made   int
	size   int
}

func (f *fake) Look(context.Context) (tasks.ProbeResult, error) { f.made++; return f.found, f.err }
func (f *fake) Bytes() int                                      { return f.size }
func (f *fake) Repeatable() bool                                { return !f.differ }

func from(change func(*From)) From {
	at := From{Engine: "e", Hosts: 1, Task: tasks.Task{
		Environment: "fleet", Host: "h1", Revision: 2,
		Spec: definition.TaskSpec{Digest: "d", Vars: map[string]any{"image": "one"}, Includes: map[string]string{"/variables": "v"}},
	}}
	if change != nil {
		change(&at)
	}
	return at
}

func TestALookIsRepeatedWhileTheTaskIsWell(t *testing.T) {
	well := tasks.ProbeResult{Health: tasks.Healthy}
	once, twice := 1, 2
	for name, tc := range map[string]struct {
		from  func(*From) // what the second look is made from
		then  fake        // what becomes of the first
		later time.Duration
		again bool
		was   *int // how often it had restarted
	}{
		"nothing changed":            {then: fake{found: well}, later: 50 * time.Second, again: true},
		"it is a while ago":          {then: fake{found: well}, later: time.Minute},
		"the clock was set back":     {then: fake{found: well}, later: -time.Second},
		"as often restarted":         {then: fake{found: tasks.ProbeResult{Health: tasks.Healthy, Restarts: &once}}, was: &once, again: true},
		"it has restarted":           {then: fake{found: tasks.ProbeResult{Health: tasks.Healthy, Restarts: &twice}}, was: &once},
		"the task drifted":           {then: fake{found: tasks.ProbeResult{Health: tasks.Drifted}}},
		"the task died":              {then: fake{found: tasks.ProbeResult{Health: tasks.Unhealthy}}},
		"its host does not answer":   {then: fake{err: errors.New("no answer")}},
		"a plug leads elsewhere":     {then: fake{found: well, differ: true}},
		"the inventory is another":   {then: fake{found: well}, from: func(f *From) { f.Hosts = 2 }},
		"the engine is another":      {then: fake{found: well}, from: func(f *From) { f.Engine = "other" }},
		"its manifest is another":    {then: fake{found: well}, from: func(f *From) { f.Task.Spec.Digest = "other" }},
		"a variable is another":      {then: fake{found: well}, from: func(f *From) { f.Task.Spec.Vars = map[string]any{"image": "two"} }},
		"what it carries is another": {then: fake{found: well}, from: func(f *From) { f.Task.Spec.Includes = map[string]string{} }},
		"the revision is another":    {then: fake{found: well}, from: func(f *From) { f.Task.Revision = 3 }},
		"the host is another":        {then: fake{found: well}, from: func(f *From) { f.Task.Host = "h2" }},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			k := Keep(func() time.Time { return now })
			k.Add(from(nil), &tc.then, tasks.ProbeResult{Health: tasks.Healthy, Restarts: tc.was})
			now = now.Add(tc.later)
			if found, got := k.Again(t.Context(), from(tc.from)); got != tc.again || got && found != tc.then.found {
				t.Errorf("again: %t, want %t", got, tc.again)
			}
			// What was not confirmed is forgotten, and what was is repeated no longer for that.
			if _, got := k.Again(t.Context(), from(tc.from)); got != tc.again {
				t.Errorf("again, once more: %t, want %t", got, tc.again)
			}
			now = now.Add(time.Minute)
			if _, well := k.Again(t.Context(), from(tc.from)); well {
				t.Error("it is repeated for ever")
			}
		})
	}
}

func TestSoManyLooksAreKept(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	k := Keep(func() time.Time { return now })
	of := func(i int) From { return from(func(f *From) { f.Task.Host = fmt.Sprint("h", i) }) }
	one := &fake{found: tasks.ProbeResult{Health: tasks.Healthy}}
	for i := range most + 1 {
		k.Add(of(i), one, one.found)
	}
	if _, well := k.Again(t.Context(), of(most)); well {
		t.Error("there is no bound")
	}
	now = now.Add(longest)
	k.Add(of(most), one, one.found)
	if _, well := k.Again(t.Context(), of(most)); !well || len(k.byTask) != 1 {
		t.Errorf("%d are kept, though all but one are too old", len(k.byTask))
	}
}

// A connection is at work for others meanwhile: it is not read into, only told from others.
func TestAnEngineIsTheSameOnlyIfItIsThatOne(t *testing.T) {
	type engine struct{ tasks map[string]int }
	one, like := &engine{map[string]int{"a": 1}}, &engine{map[string]int{"a": 1}}
	k := Keep(time.Now)
	on := func(e *engine) From { return from(func(f *From) { f.Engine = e }) }
	well := &fake{found: tasks.ProbeResult{Health: tasks.Healthy}}
	k.Add(on(one), well, well.found)
	again := func(e *engine) bool {
		_, well := k.Again(t.Context(), on(e))
		return well
	}
	if one.tasks["b"] = 2; !again(one) {
		t.Error("it is not repeated on the same engine")
	}
	if delete(one.tasks, "b"); again(like) {
		t.Error("it is repeated on another engine")
	}
}

// However large the manifests of tasks are, what is kept of them is bounded.
func TestSoManyBytesOfLooksAreKept(t *testing.T) {
	const large = mostBytes / 3
	k := Keep(time.Now)
	of := func(i int) From { return from(func(f *From) { f.Task.Host = fmt.Sprint("h", i) }) }
	one := &fake{found: tasks.ProbeResult{Health: tasks.Healthy}, size: large}
	for range 2 { // putting one again does not count twice
		for i := range 3 {
			k.Add(of(i), one, one.found)
		}
	}
	for i := range 3 {
		if _, well := k.Again(t.Context(), of(i)); !well {
			t.Errorf("look %d is not kept", i)
		}
	}
	k.Add(of(3), one, one.found)
	k.Add(of(4), &fake{found: one.found, size: mostBytes + 1}, one.found)
	for i := 3; i < 5; i++ {
		if _, well := k.Again(t.Context(), of(i)); well {
			t.Errorf("look %d is kept, too", i)
		}
	}
	for i := range 3 {
		k.take(of(i))
	}
	if k.bytes != 0 || len(k.byTask) != 0 {
		t.Errorf("nothing takes %d bytes", k.bytes)
	}
	if Weight("abc") < 3 || Weight(map[string]any{"a": []any{string(make([]byte, large)), 1}}) < large || Weight(map[string]any{}) > 100 {
		t.Error("it weighs something else")
	}
}
