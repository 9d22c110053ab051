package expression

import (
	"fmt"
	"sync"
	"testing"
)

func TestATextIsParsedOnce(t *testing.T) {
	e := New(t.TempDir())
	const src = "{% for x in list %}{{ x + n }},{% endfor %}"
	if _, err := e.Examine(src); err != nil {
		t.Fatal(err)
	}
	tree := e.templates.get(src)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			got, err := e.Evaluate(src, map[string]any{"n": n, "list": []any{1, 2}})
			if want := fmt.Sprintf("%d,%d,", n+1, n+2); got != want || err != nil {
				t.Errorf("with %d: %v %v", n, got, err)
			}
		})
	}
	all.Wait()
	if tree == nil || e.template(src) != tree {
		t.Error("the text was parsed again")
	}
	if _, err := e.Evaluate("{{ 1 +", nil); err == nil || e.templates.get("{{ 1 +") != nil {
		t.Error("what cannot be parsed is kept")
	}
}
