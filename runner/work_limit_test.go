package runner_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/report"
)

// leaves writes a file into the work directory of a container.
func leaves(t testing.TB, c enginetest.Call, name string, size int) {
	dir, _, err := c.Host(protocol.WorkDir)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600))
}

// TestARunLeavesNoMoreThanItMay has three resources set one after the other, of which each leaves as
// much. Besides, the calls of all leave less than 10 KiB.
func TestARunLeavesNoMoreThanItMay(t *testing.T) {
	const most, besides = 100 << 10, 10 << 10
	for name, test := range map[string]struct {
		serves       bool
		write, print int // bytes of each set
		sets         int // that are begun, of three: each then succeeds
	}{
		"nothing":                      {false, 0, 0, 3},
		"just enough":                  {false, most/2 - besides, 0, 3},
		"too much in all":              {false, most/2 + 1, 0, 2},
		"too much at once":             {false, most + 1, 0, 1},
		"half of it printed":           {false, most/4 - besides, most/4 - besides, 3},
		"too much printed":             {false, 0, most / 2, 2},
		"just enough by a process":     {true, most/2 - besides, 0, 3},
		"too much in all by a process": {true, most/2 + 1, 0, 2},
		"too much by the last":         {false, most/3 + 1<<10, 0, 3},
		"so by a process":              {true, most/3 + 1<<10, 0, 3},
	} {
		w := newWorld(t)
		w.engine.Images["thing"] = leaving(t, w, func(c enginetest.Call) {
			if len(c.Args) > 0 && c.Args[0] == "set" {
				leaves(t, c, "left", test.write)
				_, _ = io.WriteString(c.Stdout, strings.Repeat(strings.Repeat("x", 99)+"\n", test.print/100))
			}
		})
		if test.serves {
			w.engine.Images["thing"] = w.serving(func(ctx context.Context, p *served) int {
				for q := range p.questions {
					if q.Action == "set" {
						leaves(t, p.Call, q.name(), test.write)
					}
					p.answer(ctx, q)
				}
				return 0
			})
		}
		got, err := w.apply(t, many(3, "thing"), func(o *options) { o.MaxWork, o.Parallelism = most, 1 })
		changed := 0
		for _, status := range got {
			if status == report.Changed {
				changed++
			}
		}
		assert.Equal(t, test.sets, changed, name)
		assert.Equal(t, test.sets, w.runs("set"), name)
		said := slices.DeleteFunc(w.warnings(), func(text string) bool {
			return !strings.Contains(text, "more than the 100 KiB of --max-work: have its programs write less there")
		})
		assert.Len(t, said, map[bool]int{true: 1}[test.sets == 3 && 3*test.write > most], "%s: %q", name, w.warnings())
		if test.sets == 3 {
			assert.NoError(t, err, name)
			continue
		}
		assert.Error(t, err, name)
		i := slices.IndexFunc(w.logged, func(e report.Event) bool { return e.Error != "" })
		if assert.GreaterOrEqual(t, i, 0, name) {
			assert.Equal(t, report.ResourceFailed, w.logged[i].Kind, name)
			assert.Regexp(t, `^run RUN has left 1\d\d(\.\d)? KiB in \.deployster/work/RUN/, more than the 100 KiB of --max-work, and begins no other resource: have its programs write less there, or allow more with --max-work$`, w.logged[i].Error, name)
		}
	}
}

// leaving is the image of a world's thing, which does something else first with each call.
func leaving(t testing.TB, w *world, first func(enginetest.Call)) enginetest.FakeImage {
	thing := w.engine.Images["thing"].Program
	return image(func(ctx context.Context, c enginetest.Call) int {
		text, err := io.ReadAll(c.Stdin)
		assert.NoError(t, err)
		c.Stdin = bytes.NewReader(text)
		first(c)
		return thing(ctx, c)
	})
}

// Each call of these types leaves more than a run may.
func TestWhatWasBegunIsNotRefusedForWhatItLeft(t *testing.T) {
	much := func(w *world) {
		w.engine.Images["thing"] = leaving(t, w, func(c enginetest.Call) { leaves(t, c, "left", 20<<10) })
	}
	bound := func(o *options) { o.MaxWork, o.Parallelism = 10<<10, 1 }

	w := applied(t, levels)
	much(w)
	got, err := w.apply(t, levels+"  more: {type: thing, dependencies: {web: web}, config: {value: 4}}\n", replacing("disk", "db"), bound)
	require.ErrorContains(t, err, "--max-work")
	wantStatuses(t, got, map[string]report.Status{"disk": report.Changed, "db": report.Changed, "web": report.Unchanged, "more": report.Failed})
	assert.Equal(t, []string{"unset db", "unset disk", "set disk", "set db"}, acted(w))

	w = applied(t, levels)
	much(w)
	removed, err := w.runner(t, levels, bound).Destroy(t.Context())
	require.NoError(t, err)
	for _, res := range removed.Resources {
		assert.Equal(t, report.Destroyed, res.Status, res.Name)
	}
	assert.Empty(t, w.things)
}
