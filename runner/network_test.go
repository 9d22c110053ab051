package runner_test

import (
	"bytes"
	"context"
	"io"
	"reflect"
	"testing"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/runner/report"
)

// What a type says of its network it says of its own image, and whoever runs it has the last word.
func TestATypeThatNeedsNoNetworkGetsNone(t *testing.T) {
	const plain = `"network":"none",`
	for name, c := range map[string]struct {
		members string // of the answer to init
		network string // that the run is given
		want    map[string]string
	}{
		"in containers of its own":       {plain, "", map[string]string{"init": "", "state": "offline", "set": "offline", "tool": ""}},
		"as a process":                   {plain + serves, "", map[string]string{"init": "", "serve": "offline", "tool": ""}},
		"as a process of another image":  {plain + `"serve_action":{"image":"server","args":["serve"]},`, "", map[string]string{"init": "", "serve": "", "tool": ""}},
		"that nobody asked it about":     {"", "", map[string]string{"init": "", "state": "", "set": "", "tool": ""}},
		"unless the run is to have one":  {plain, "lan", map[string]string{"init": "lan", "state": "lanoffline", "set": "lanoffline", "tool": "lan"}},
		"unless its process is to, also": {plain + serves, "lan", map[string]string{"init": "lan", "serve": "lanoffline", "tool": "lan"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.engine.Images["thing"] = w.tooled(c.members)
			w.engine.Images["server"] = w.engine.Images["thing"]
			w.engine.Images["tool"] = image(func(context.Context, enginetest.Call) int { return 0 })
			statuses, err := w.apply(t, "resources: {a: {type: thing, config: {value: 1}}}", func(o *options) {
				o.Network = c.network
			})
			if err != nil {
				t.Fatal(err)
			}
			wantStatuses(t, statuses, map[string]report.Status{"a": report.Changed})
			got := map[string]string{}
			for _, run := range w.engine.Runs() {
				name := "init"
				if len(run.Spec.Args) > 0 {
					name = run.Spec.Args[0]
				}
				network := run.Spec.Network
				if run.Spec.Offline {
					network += "offline"
				}
				if before, twice := got[name]; twice && before != network {
					t.Errorf("%s ran in the network %q and in %q", name, before, network)
				}
				got[name] = network
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("the networks are %q, want %q", got, c.want)
			}
		})
	}
}

// tooled is the good type, with these members in its answer to init, and a tool of another image
// as its first action.
func (w *world) tooled(members string) enginetest.FakeImage {
	return image(func(ctx context.Context, c enginetest.Call) int {
		if len(c.Args) == 0 {
			c.Stdout = replaced{c.Stdout, "{\n", "{" + members}
			return w.thing(ctx, c)
		}
		c.Stdout = replaced{c.Stdout, `"actions":[`, `"actions":[{"name":"tool","image":"tool","args":["tool"]},`}
		if c.Args[0] == "serve" {
			return w.serving(good).Program(ctx, c)
		}
		return w.thing(ctx, c)
	})
}

// replaced writes something else in place of a text.
type replaced struct {
	io.Writer
	old, new string
}

// Write implements io.Writer.
func (r replaced) Write(p []byte) (int, error) {
	_, err := r.Writer.Write(bytes.Replace(p, []byte(r.old), []byte(r.new), 1))
	return len(p), err
}
