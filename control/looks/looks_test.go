package looks

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
)

// fake is a look that counts how often it was made.
type fake struct {
	found      tasks.ProbeResult
	err        error
	differ     bool // it would look at something else by now
	made, size int
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

// again reports whether a look is repeated.
func again(t *testing.T, k *Kept, at From) bool {
	_, well := k.Again(t.Context(), at)
	return well
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
			found, got := k.Again(t.Context(), from(tc.from))
			assert.True(t, got == tc.again && (!got || found == tc.then.found), "again: %t, want %t", got, tc.again)
			// What was not confirmed is forgotten, and what was is repeated no longer for that.
			assert.Equal(t, tc.again, again(t, k, from(tc.from)), "once more")
			now = now.Add(time.Minute)
			assert.False(t, again(t, k, from(tc.from)), "for ever")
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
	assert.False(t, again(t, k, of(most)), "there is no bound")
	now = now.Add(longest)
	k.Add(of(most), one, one.found)
	assert.True(t, again(t, k, of(most)))
	assert.Len(t, k.byTask, 1, "all but one are too old")
}

// A connection is at work for others meanwhile: it is not read into, only told from others.
func TestAnEngineIsTheSameOnlyIfItIsThatOne(t *testing.T) {
	type engine struct{ tasks map[string]int }
	one, like := &engine{map[string]int{"a": 1}}, &engine{map[string]int{"a": 1}}
	k := Keep(time.Now)
	on := func(e *engine) From { return from(func(f *From) { f.Engine = e }) }
	well := &fake{found: tasks.ProbeResult{Health: tasks.Healthy}}
	k.Add(on(one), well, well.found)
	one.tasks["b"] = 2
	assert.True(t, again(t, k, on(one)), "on the same engine")
	delete(one.tasks, "b")
	assert.False(t, again(t, k, on(like)), "on another engine")
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
		assert.True(t, again(t, k, of(i)), "look %d", i)
	}
	k.Add(of(3), one, one.found)
	k.Add(of(4), &fake{found: one.found, size: mostBytes + 1}, one.found)
	for i := 3; i < 5; i++ {
		assert.False(t, again(t, k, of(i)), "look %d", i)
	}
	for i := range 3 {
		k.take(of(i))
	}
	assert.Zero(t, k.bytes)
	assert.Empty(t, k.byTask)
	assert.GreaterOrEqual(t, Weight("abc"), 3)
	assert.GreaterOrEqual(t, Weight(map[string]any{"a": []any{string(make([]byte, large)), 1}}), large)
	assert.LessOrEqual(t, Weight(map[string]any{}), 100)
}
