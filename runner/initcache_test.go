package runner_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/runner"
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
		if _, err := r.Plan(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.runs("init"); got != tc.asked {
			t.Errorf("%s, init was asked %d times, want %d", tc.name, got, tc.asked)
		}
	}
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
		if err == nil || !strings.Contains(err.Error(), "init of bad") || len(cache.answers) != 0 {
			t.Errorf("%s: %v, %d remembered", name, err, len(cache.answers))
		}
	}
}

// Runs that share what was decoded find the same in it, and it does not grow for ever.
func TestAnAnswerToInitIsDecodedOnceForManyRuns(t *testing.T) {
	w := newWorld(t)
	shared := &runner.InitAnswers{}
	for i := range 500 {
		w.engine.Images["thing"] = image(func(ctx context.Context, c enginetest.Call) int {
			if len(c.Args) > 0 {
				return w.thing(ctx, c)
			}
			_, _ = io.WriteString(c.Stdout, strings.Replace(thingInit, `"value": {}`, fmt.Sprintf(`"value": {"maximum": %d}`, i), 1))
			return 0
		})
		for value, valid := range map[int]bool{i: true, i + 1: false} {
			_, err := w.apply(t, fmt.Sprintf("resources: {r: {type: thing, config: {value: %d}}}", value), func(o *options) { o.InitAnswers = shared })
			if (err == nil) != valid {
				t.Fatalf("%d where at most %d is valid: %v", value, i, err)
			}
		}
	}
}
