package runner_test

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/inits"
)

// memory is an InitCache.
type memory struct {
	mu      sync.Mutex
	answers map[string][]byte
}

func (m *memory) Get(key string) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	answer, ok := m.answers[key]
	return answer, ok
}

func (m *memory) Put(key string, answer []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers[key] = answer
}

func TestWhatATypeAnsweredInitIsNotAskedAgain(t *testing.T) {
	w := newWorld(t)
	cache := &memory{answers: map[string][]byte{}}
	for _, tc := range []struct {
		name   string
		change func(*options)
		before func()
		asked  int
	}{
		{"the first time", func(*options) {}, func() {}, 3},
		{"again", func(*options) {}, func() {}, 0},
		{"by another version", func(o *options) { o.Version = "1.2.4" }, func() {}, 3},
		{"after the cache was damaged", func(*options) {}, func() {
			for key := range cache.answers {
				cache.answers[key] = []byte(`{"state_action":`)
			}
		}, 3},
		{"after it was damaged to be no schema", func(*options) {}, func() {
			for key := range cache.answers {
				cache.answers[key] = []byte(`{"state_action":{"args":["state"]},"config_schema":{"type":7}}`)
			}
		}, 3},
		{"without a cache", func(o *options) { o.InitCache = nil }, func() {}, 3},
	} {
		tc.before()
		w.forget()
		r := w.runner(t, many(3, "thing"), func(o *options) { o.InitCache = cache }, tc.change)
		must.Get(r.Plan(t.Context()))(t)
		assert.Equal(t, tc.asked, w.runs("init"), tc.name)
	}
}

func TestRunsThatBeginAtOnceAskATypeOnce(t *testing.T) {
	const runs = 5
	for name, tc := range map[string]struct {
		answers        func(asked int) bool
		engines, asked int
		took           time.Duration
		failed         int
	}{
		"of a type that answers":         {func(int) bool { return true }, 1, 1, time.Minute, 0},
		"of one that fails at first":     {func(asked int) bool { return asked > 1 }, 1, runs, 2 * time.Minute, 1},
		"of one that fails":              {func(int) bool { return false }, 1, runs, 2 * time.Minute, runs},
		"of one that two engines have":   {func(int) bool { return true }, 2, 2, time.Minute, 0},
		"of one that fails on both once": {func(asked int) bool { return asked > 2 }, 2, runs, 2 * time.Minute, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			var asked atomic.Int32
			w.engine.Images["thing"] = image(func(ctx context.Context, c enginetest.Call) int {
				if len(c.Args) > 0 {
					return w.thing(ctx, c)
				}
				n := int(asked.Add(1))
				<-time.After(time.Minute)
				if !tc.answers(n) {
					return 1
				}
				_, _ = io.WriteString(c.Stdout, thingInit)
				return 0
			})
			engines := []*enginetest.Fake{w.engine, {Images: w.engine.Images}}
			cache, shared := &memory{answers: map[string][]byte{}}, &inits.Answers{}
			began := time.Now()
			var failed atomic.Int32
			var all sync.WaitGroup
			for i := range runs {
				on := engines[i%tc.engines]
				r := w.runner(t, "resources: {r: {type: thing, config: {value: 1}}}", func(o *options) {
					o.Engine, o.Images, o.InitCache, o.InitAnswers = on, on, cache, shared
					o.Work = filepath.Join(w.workspace, ".deployster", "work", fmt.Sprint(i))
				})
				all.Go(func() {
					if _, err := r.Plan(t.Context()); err != nil {
						failed.Add(1)
					}
				})
			}
			all.Wait()
			if took := time.Since(began); int(asked.Load()) != tc.asked || took != tc.took || int(failed.Load()) != tc.failed {
				t.Errorf("%s: asked %d times, %d failed, in %s; want %d, %d, %s", name, asked.Load(), failed.Load(), took, tc.asked, tc.failed, tc.took)
			}
		})
	}
}

func TestARunThatIsEndedDoesNotWaitForTheAnswerToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.before = func(action, _ string) { <-time.After(time.Hour) }
		cache, shared := &memory{answers: map[string][]byte{}}, &inits.Answers{}
		run := func(name string) run {
			return w.runner(t, "resources: {r: {type: thing, config: {value: 1}}}", func(o *options) {
				o.InitCache, o.InitAnswers, o.Work = cache, shared, filepath.Join(w.workspace, ".deployster", "work", name)
			})
		}
		first, second := run("first"), run("second")
		var all sync.WaitGroup
		all.Go(func() { _, _ = first.Plan(t.Context()) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := second.Plan(ctx)
		assert.True(t, err != nil && time.Since(began) == time.Second, "it took %s (%v)", time.Since(began), err)
		all.Wait()
	})
}

func TestOnlyGoodAnswersAreRemembered(t *testing.T) {
	for name, init := range map[string]string{
		"no document": "hello",
		"no schema":   `{"state_action":{"args":["state"]},"config_schema":{"type":7}}`,
	} {
		w := newWorld(t)
		w.engine.Images["bad"] = answering(init, "", 0)
		cache := &memory{answers: map[string][]byte{}}
		_, err := w.apply(t, many(1, "bad"), func(o *options) { o.InitCache = cache })
		assert.ErrorContains(t, err, "init of bad", name)
		assert.Empty(t, cache.answers, name)
	}
}

// Runs that share what was decoded find the same in it, and it does not grow for ever.
func TestAnAnswerToInitIsDecodedOnceForManyRuns(t *testing.T) {
	w := newWorld(t)
	shared := &inits.Answers{}
	for i := range 220 { // of which not all are kept
		w.engine.Images["thing"] = image(func(ctx context.Context, c enginetest.Call) int {
			if len(c.Args) > 0 {
				return w.thing(ctx, c)
			}
			_, _ = io.WriteString(c.Stdout, strings.Replace(thingInit, `"value": {}`, fmt.Sprintf(`"value": {"maximum": %d}`, i), 1))
			return 0
		})
		for value, valid := range map[int]bool{i: true, i + 1: false} {
			text := fmt.Sprintf("resources: {r: {type: thing, config: {value: %d}}}", value)
			_, err := w.runner(t, text, func(o *options) { o.InitAnswers, o.Forget = shared, true }).Plan(t.Context())
			require.Equal(t, valid, err == nil, "%d where at most %d is valid: %v", value, i, err)
		}
	}
}

func TestWhatATypeAnsweredLastIsKnownByItsReference(t *testing.T) {
	w := newWorld(t)
	cache := &memory{answers: map[string][]byte{}}
	var version string
	r := w.runner(t, many(2, "thing"), func(o *options) { o.InitCache, version = cache, o.Version })
	must.Get(r.Plan(t.Context()))(t)
	answer, ok := inits.Last(cache, version, "thing")
	assert.True(t, ok && answer.Schema != nil && len(answer.ConfigSchema) != 0, "got %+v, %t", answer, ok)
	for _, unknown := range [][2]string{{version, "other"}, {version + "x", "thing"}} {
		_, ok = inits.Last(cache, unknown[0], unknown[1])
		assert.False(t, ok)
	}
	for key := range cache.answers {
		cache.answers[key] = []byte(`{"state_action":{"args":["state"]},"config_schema":{"type":7}}`)
	}
	_, ok = inits.Last(cache, version, "thing")
	assert.False(t, ok, "a damaged answer is believed")
}

func TestTypesAreAskedWhichImagesTheirActionsRun(t *testing.T) {
	w := newWorld(t)
	answering := func(answer string) enginetest.FakeImage {
		return image(func(_ context.Context, c enginetest.Call) int { fmt.Fprint(c.Stdout, answer); return 0 })
	}
	w.engine.Images["tooled"] = answering(`{"state_action":{"image":"asker"},"serve_action":{"image":"server"},"action_images":["tool","tooled","tool"]}`)
	w.engine.Images["broken"] = answering(`{"state_action":{}}`)
	r := w.runner(t, `resources:
  a: {type: tooled, config: {}}
  b: {type: thing, config: {value: 1}}
  c: {type: broken, config: {}}
  d: {type: none, config: {}}
  e: {type: broken, config: {}}
`)
	named, failed := r.ActionImages(t.Context(), runner.Caller{}, []string{"a", "b", "c", "d"})
	assert.Equal(t, []string{"asker", "server", "tool"}, named["a"])
	assert.Empty(t, named["b"])
	assert.True(t, len(failed) == 2 && strings.Contains(fmt.Sprint(failed["c"]), "init of broken") &&
		strings.Contains(fmt.Sprint(failed["d"]), "image none"), "the failures are %v", failed)
	assert.Empty(t, w.logged)
}
