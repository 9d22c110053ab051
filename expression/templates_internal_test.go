package expression

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/must"
)

func TestATextIsParsedOnce(t *testing.T) {
	e := New(t.TempDir())
	const src = "{% for x in list %}{{ x + n }},{% endfor %}"
	must.Get(e.Examine(src))(t)
	tree := e.templates.get(src)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			got, err := e.Evaluate(src, map[string]any{"n": n, "list": []any{1, 2}})
			assert.True(t, got == fmt.Sprintf("%d,%d,", n+1, n+2) && err == nil, "with %d: %v %v", n, got, err)
		})
	}
	all.Wait()
	assert.True(t, tree != nil && e.template(src) == tree, "the text was parsed again")
	_, err := e.Evaluate("{{ 1 +", nil)
	assert.True(t, err != nil && e.templates.get("{{ 1 +") == nil, "what cannot be parsed is kept")
}

// What is kept takes no more memory than is counted, whatever it is made of.
func TestTheTreesThatAreKeptAreWeighed(t *testing.T) {
	for name, part := range map[string]string{
		"names":      "{{a#}}",
		"signs":      "{{" + strings.Repeat("-", 1000) + "1}}",
		"filters":    "{{#" + strings.Repeat("|d", 1000) + "}}",
		"calls":      "{{a" + strings.Repeat("()", 1000) + "}}",
		"sums":       "{{#" + strings.Repeat("+1", 1000) + "}}",
		"lists":      "{{[" + strings.Repeat("[],", 1000) + "]}}",
		"mappings":   "{{[" + strings.Repeat("{},", 1000) + "]}}",
		"slices":     "{{a" + strings.Repeat("[:]", 1000) + "}}",
		"texts":      `{{'` + strings.Repeat(`\n`, 1000) + `'}}`,
		"targets":    "{%set a#,b#,c#,d#=1%}",
		"loops":      "{%for a in b%}{%endfor%}",
		"scopes":     "{%with a#=1%}{%endwith%}",
		"macros":     "{%macro m#(a,b)%}{%endmacro%}",
		"blocks":     "{%block a#%}{%endblock%}",
		"conditions": "{%if 1%}{%endif%}",
		"includes":   "{%include 'a#'%}",
	} {
		t.Run(name, func(t *testing.T) {
			var src strings.Builder
			for i := 0; src.Len() < 100_000; i++ {
				src.WriteString(strings.ReplaceAll(part, "#", strconv.Itoa(i)))
			}
			e := New(t.TempDir())
			before := live()
			e.template(src.String())
			taken := live() - before
			assert.True(t, e.templates.held >= taken && taken > 0, "%d bytes are counted, %d are taken", e.templates.held, taken)
			runtime.KeepAlive(e)
		})
	}
	e := New(t.TempDir())
	for i := range 200 {
		e.template(strconv.Itoa(i) + "{{" + strings.Repeat("-", 4990) + "1}}" + strings.Repeat("x", 500_000))
	}
	assert.True(t, e.templates.held <= maxHeld && len(e.templates.trees) != 0 && len(e.templates.trees) != 200,
		"%d trees of %d bytes are kept", len(e.templates.trees), e.templates.held)
}

func live() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
