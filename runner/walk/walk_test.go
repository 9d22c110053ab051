package walk_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/graph"
	"github.com/deployster-go/deployster/runner/walk"
)

// steps walks a → b → c one by one, where b stands for members, and returns what was done.
func steps(members []string, fails string) string {
	g := graph.New[string]()
	g.Add("c", "b")
	g.Add("b", "a")
	var mu sync.Mutex
	var done []string
	note := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		done = append(done, text)
	}
	walk.Walk[string]{
		Graph: g, Parallelism: 1,
		Visit: func(name string) ([]string, error) {
			note(name)
			switch name {
			case fails:
				return nil, errors.New("it fails")
			case "b":
				return members, nil
			}
			return nil, nil
		},
		Skip:   func(name, why string) { note("not " + name + " as of " + why) },
		Closed: func() *string { return nil },
		Failed: func(name string, _ error) *string { return &name },
	}.Run()
	return strings.Join(done, ", ")
}

func TestWhatDependsOnANodeWaitsForAllItStandsFor(t *testing.T) {
	for _, tc := range []struct {
		members     []string
		fails, want string
	}{
		{nil, "", "a, b, c"},
		{[]string{"b1", "b2"}, "", "a, b, b1, b2, c"},
		{[]string{"b1", "b2"}, "b1", "a, b, b1, b2, not c as of b1"},
		{[]string{"b1"}, "b", "a, b, not c as of b"},
		{[]string{"b1"}, "a", "a, not b as of a, not c as of a"},
	} {
		assert.Equal(t, tc.want, steps(tc.members, tc.fails), tc.fails)
	}
}

func TestNothingBeginsOnceItIsClosed(t *testing.T) {
	g := graph.New[string]()
	for _, name := range []string{"a", "b", "c"} {
		g.Add(name)
	}
	why := "closed"
	var mu sync.Mutex
	var visited, skipped []string
	walk.Walk[string]{
		Graph: g, Parallelism: 1,
		Visit: func(name string) ([]string, error) {
			mu.Lock()
			defer mu.Unlock()
			visited = append(visited, name)
			return nil, nil
		},
		Skip:  func(name, _ string) { skipped = append(skipped, name) },
		Tries: func(name string) bool { return name == "c" },
		Closed: func() *string {
			mu.Lock()
			defer mu.Unlock()
			if len(visited) > 0 {
				return &why
			}
			return nil
		},
		Failed: func(string, error) *string { return nil },
	}.Run()
	assert.Equal(t, []string{"a", "c"}, visited)
	assert.Equal(t, []string{"b"}, skipped)
}
