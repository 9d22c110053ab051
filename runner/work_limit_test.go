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
		sets         int // that succeed, of three
	}{
		"nothing":                      {false, 0, 0, 3},
		"just enough":                  {false, (most - besides) / 3, 0, 3},
		"too much in all":              {false, most/3 + 1, 0, 2},
		"too much at once":             {false, most + 1, 0, 0},
		"half of it printed":           {false, (most - besides) / 6, (most - besides) / 6, 3},
		"too much printed":             {false, 0, most / 2, 1},
		"just enough by a process":     {true, (most - besides) / 3, 0, 3},
		"too much in all by a process": {true, most/3 + 1, 0, 2},
	} {
		w := newWorld(t)
		w.engine.Images["thing"] = image(func(ctx context.Context, c enginetest.Call) int {
			text, _ := io.ReadAll(c.Stdin)
			c.Stdin = bytes.NewReader(text)
			if len(c.Args) > 0 && c.Args[0] == "set" {
				leaves(t, c, "left", test.write)
				_, _ = io.WriteString(c.Stdout, strings.Repeat(strings.Repeat("x", 99)+"\n", test.print/100))
			}
			return w.thing(ctx, c)
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
		if test.sets == 3 {
			assert.NoError(t, err, name)
			continue
		}
		assert.Error(t, err, name)
		i := slices.IndexFunc(w.logged, func(e report.Event) bool { return e.Kind == report.ActionFailed })
		if assert.GreaterOrEqual(t, i, 0, name) {
			assert.Regexp(t, `^action set: run RUN has left 1\d\d(\.\d)? KiB in \.deployster/work/RUN/, more than the 100 KiB that one run may: have its programs write less there, or allow more with --max-work$`, w.logged[i].Error, name)
		}
	}
}
