package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/protected"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner"
)

var errKilled = errors.New("the process was killed")

// mortal is the log of a process that is killed at one of its appends: just before the log has
// what it appends, or just after.
type mortal struct {
	deploylog.Log
	left  int // appends that it lives to see
	after bool
	dead  bool
}

func (m *mortal) Append(ctx context.Context, events ...deploylog.Event) ([]deploylog.Event, error) {
	if m.dead {
		return nil, errKilled
	}
	if m.left--; m.left >= 0 {
		return m.Log.Append(ctx, events...)
	}
	m.dead = true
	if m.after {
		if _, err := m.Log.Append(ctx, events...); err != nil {
			return nil, err
		}
	}
	return nil, errKilled
}

// cloud has disks with ids that only it gives, each marked with the id of the resource that it is of.
type cloud struct {
	dir   string
	log   deploylog.Log
	docs  *protected.Store
	disks map[string]string // id → mark
	made  int
	runs  int
}

func newCloud(t *testing.T) *cloud {
	dir := t.TempDir()
	return &cloud{dir: dir, log: reconciletest.InMemory(t)(), docs: protected.New(filepath.Join(dir, protected.DirName)), disks: map[string]string{}}
}

// disk is a type that finds a disk by what was kept, and where it is not known how the last action
// ended, by its mark.
func (c *cloud) disk(_ context.Context, call enginetest.Call) int {
	if len(call.Args) == 0 {
		fmt.Fprint(call.Stdout, `{"keeps":true,"removable":true,"state_action":{"args":["state"]},"config_schema":{"properties":{"token":{"writeOnly":true}}}}`)
		return 0
	}
	var in protocol.ActionInput
	if text, err := io.ReadAll(call.Stdin); err != nil || json.Unmarshal(text, &in) != nil {
		return 3
	}
	id, _ := in.Kept["id"].(string)
	if id == "" && in.Interrupted {
		for other, mark := range c.disks {
			if mark == in.ID {
				id = other
			}
		}
	}
	_, there := c.disks[id]
	out := protocol.StateOutput{Status: protocol.Valid, State: map[string]any{"id": id}, Keep: map[string]any{"id": id}}
	switch action := call.Args[0]; {
	case action == "create":
		c.made++
		id = fmt.Sprintf("d-%d", c.made)
		c.disks[id] = in.ID
		fmt.Fprintf(call.Stdout, "{\"keep\":{\"id\":%q}}\n", id)
		return 0
	case action == "delete":
		delete(c.disks, id)
		return 0
	case in.Ensure == protocol.Absent && there:
		out = protocol.StateOutput{Status: protocol.Stale, StaleState: map[string]any{"id": id}, Actions: []protocol.Action{protocol.Do("delete", "")}}
	case in.Ensure == protocol.Absent:
		out = protocol.StateOutput{Status: protocol.Valid, State: map[string]any{}}
	case !there:
		out = protocol.StateOutput{Status: protocol.Stale, Actions: []protocol.Action{protocol.Do("create", "")}}
	}
	if json.NewEncoder(call.Stdout).Encode(out) != nil {
		return 3
	}
	return 0
}

// apply applies a manifest with disks of these names, and prunes, as a process that is killed at
// one of its appends, unless left is negative. It reports whether it was.
func (c *cloud) apply(t *testing.T, left int, after bool, names ...string) (killed bool) {
	t.Helper()
	text := "resources:"
	for _, name := range names {
		text += fmt.Sprintf("\n  %s: {type: disk, config: {token: hush-hush}}", name)
	}
	if len(names) == 0 {
		text += " {}"
	}
	expressions := expression.New(c.dir)
	m, err := manifest.Load([]manifest.Source{{Name: "m.yaml", Data: []byte(text)}}, manifest.Options{Evaluator: expressions, Workspace: c.dir, Home: c.dir})
	if err != nil {
		t.Fatal(err)
	}
	log := &mortal{Log: c.log, left: left, after: after}
	if left < 0 {
		log.left = 1 << 30
	}
	c.runs++
	fake := &enginetest.Fake{Images: map[string]enginetest.FakeImage{"disk": {Program: c.disk, Entrypoint: []string{"/type"}}}}
	o := runs.Options{
		Log: log, Engine: fake, ID: fmt.Sprintf("RUN%03d", c.runs), Target: "run/m.yaml", Revision: "rev", OrphanTimeout: time.Minute, Notice: func(string) {},
		Protected: c.docs, Manifest: []string{"m.yaml"}, Workspace: c.dir,
	}
	held, err := runs.Begin(t.Context(), o)
	if log.dead {
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	defer held.End() // the kernel takes the locks of a process that was killed
	h, err := runs.ReadHistory(t.Context(), c.log)
	if err != nil {
		t.Fatal(err)
	}
	gone := h.Undeclared(runs.Owner{Manifest: []string{"m.yaml"}, Workspace: c.dir}, func(name string) bool { return m.Resource(name) != nil })
	for i := range gone {
		thing, _ := h.Thing(gone[i].Name)
		if gone[i].Made, err = thing.Open(c.docs); err != nil {
			t.Fatal(err)
		}
	}
	_, err = runner.New(runner.Spec{Manifest: m, Expressions: expressions, Undeclared: gone, Prune: true}, runner.Containers{
		Engine: fake, Images: fake, Parallelism: 1, Pull: engine.PullMissing, Now: time.Now, Run: o.ID, Log: "LOG",
		Workspace: c.dir, Work: filepath.Join(c.dir, "work", o.ID),
	}).Apply(t.Context(), runner.Caller{Recorder: held, Guard: held, Past: runs.PastOf(o)})
	if err != nil && !log.dead {
		t.Fatal(err)
	}
	return log.dead
}

// has fails unless there is just one disk of each name, known by what is kept, and no document that
// nothing refers to but those that are removed as such.
func (c *cloud) has(t *testing.T, names ...string) {
	t.Helper()
	memory := runs.Memory{Log: c.log, Protected: c.docs}
	for _, name := range names {
		past, err := memory.Past(t.Context(), name, true)
		kept := past.Kept
		if id, _ := kept["id"].(string); err != nil || c.disks[id] != "LOG/"+name {
			t.Errorf("of %s is kept %v (%v), and there are %v", name, kept, err, c.disks)
		}
	}
	if len(c.disks) != len(names) || c.made > len(names) {
		t.Errorf("there are %v of %d that were made, want one of each of %v", c.disks, c.made, names)
	}
	h, err := runs.ReadHistory(t.Context(), c.log)
	if err != nil || !slices.Equal(h.Names(), names) {
		t.Errorf("the log knows %v (%v), want %v", h.Names(), err, names)
	}
	needed, err := runs.Documents(t.Context(), c.log)
	if err != nil {
		t.Fatal(err)
	}
	pruned, err := c.docs.Prune(func(name string) bool { return needed[name] }, time.Now().Add(time.Hour), false)
	left, failed := filepath.Glob(filepath.Join(c.dir, protected.DirName, "*"))
	if err != nil || failed != nil || len(pruned) > 1 || len(left) != 2*len(names) {
		t.Errorf("%d documents are left, and %d were of nobody (%v)", len(left), len(pruned), err)
	}
	for e, err := range c.log.Read(t.Context(), deploylog.Filter{}) {
		if err != nil || strings.Contains(string(e.Data), "hush") || strings.Contains(string(e.Data), `"d-`) {
			t.Fatalf("%s of %s: %v", e.Name, e.Target, err)
		}
	}
}

// atEachAppend does something as a process that is killed at its first append, at its second, and
// so on, each time in another world, before and after the log has it.
func atEachAppend(t *testing.T, do func(t *testing.T, left int, after bool) (killed bool)) {
	t.Helper()
	for _, after := range []bool{false, true} {
		left := 0
		for do(t, left, after) && !t.Failed() {
			left++
		}
		if left < 10 && !t.Failed() {
			t.Errorf("it was killed %d times only", left)
		}
	}
}

// Whenever a process is killed, the next one knows what is kept, or is told that an action was
// interrupted: nothing is made twice, and nothing is lost.
func TestNothingIsLostOrDoubledWhereverARunIsKilled(t *testing.T) {
	atEachAppend(t, func(t *testing.T, left int, after bool) bool {
		c := newCloud(t)
		killed := c.apply(t, left, after, "a", "b")
		c.apply(t, -1, false, "a", "b")
		c.has(t, "a", "b")
		return killed
	})
}

// Wherever a prune is killed, the next one removes the rest, and the log knows of nothing more.
func TestWhatIsPrunedIsGoneWhereverTheRunIsKilled(t *testing.T) {
	atEachAppend(t, func(t *testing.T, left int, after bool) bool {
		c := newCloud(t)
		c.apply(t, -1, false, "a", "b")
		c.made = 0
		killed := c.apply(t, left, after, "b")
		c.apply(t, -1, false, "b")
		c.has(t, "b")
		return killed
	})
}
