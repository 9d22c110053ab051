package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/invoke"
)

// copies are images by other names, too.
type copies struct {
	invoke.Images
	of map[string]string
}

func (c copies) Image(ctx context.Context, ref string, policy engine.PullPolicy, progress func(engine.Progress)) (engine.Image, error) {
	name, copied := c.of[ref]
	if !copied {
		name = ref
	}
	image, err := c.Images.Image(ctx, name, policy, progress)
	image.Ref = ref
	return image, err
}

// Types that are one image have one process, which is told with each request which of them is
// meant; a type of another image has its own, and is told nothing of theirs.
func TestTypesOfOneImageHaveOneProcess(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	told := map[string][]string{} // what each process was asked
	for _, name := range []string{"thing", "other"} {
		w.engine.Images[name] = w.serving(func(ctx context.Context, p *served) int {
			for q := range p.questions {
				var in protocol.InitInput
				if err := json.Unmarshal(q.Input, &in); err != nil {
					return 1
				}
				mu.Lock()
				told[name] = append(told[name], in.Type+" "+in.Name)
				mu.Unlock()
				p.answer(ctx, q)
			}
			return 0
		})
	}
	_, err := w.apply(t, `
resources:
  a: {type: thing, config: {value: 1}}
  b: {type: acme/thing, dependencies: {a: a}, config: {value: 1}}
  c: {type: other, dependencies: {b: b}, config: {value: 1}}`, func(o *options) {
		o.Images = copies{w.engine, map[string]string{"acme/thing": "thing"}}
	})
	if err != nil {
		t.Fatal(err)
	}
	for process, want := range map[string][]string{"thing": {"acme/thing b", "thing a"}, "other": {"other c"}} {
		slices.Sort(told[process])
		if got := slices.Compact(told[process]); !slices.Equal(got, want) {
			t.Errorf("the process of %s was asked for %q, want %q", process, got, want)
		}
	}
	if serving, _ := w.starts(); serving != 2 {
		t.Errorf("%d processes were started, want one for each image", serving)
	}
}

// An error of such a process says whose it is.
func TestAProcessIsNamedAfterAllItsTypes(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["thing"] = w.serving(func(context.Context, *served) int { return 3 })
	_, err := w.apply(t, `
resources:
  a: {type: thing, config: {value: 1}}
  b: {type: acme/thing, config: {value: 1}}`, func(o *options) {
		o.Images = copies{w.engine, map[string]string{"acme/thing": "thing"}}
	})
	if told := strings.Join(w.warnings(), "\n"); !strings.Contains(told+fmt.Sprint(err), "the process that serves acme/thing, thing (image sha256:") {
		t.Errorf("warnings %q, error %v", told, err)
	}
}
