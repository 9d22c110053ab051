package runner_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/runner"
)

func TestTypesAreAskedWhichImagesTheirActionsRun(t *testing.T) {
	w := newWorld(t)
	answering := func(answer string) enginetest.FakeImage {
		return image(func(_ context.Context, c enginetest.Call) int {
			fmt.Fprint(c.Stdout, answer)
			return 0
		})
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
	if !reflect.DeepEqual(named["a"], []string{"asker", "server", "tool"}) || len(named["b"]) != 0 {
		t.Errorf("they name %q", named)
	}
	if len(failed) != 2 || !strings.Contains(fmt.Sprint(failed["c"]), "init of broken") || !strings.Contains(fmt.Sprint(failed["d"]), "image none") {
		t.Errorf("the failures are %v", failed)
	}
	if len(w.logged) > 0 {
		t.Errorf("it recorded %v", w.logged)
	}
}
