package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/report"
)

// write writes a manifest.
func (w *world) write(t *testing.T, file, resources string) {
	t.Helper()
	text := "plugs: {root: {path: one}}\nresources: {" + resources + "}\n"
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, file), []byte(text), 0o600))
}

// apply applies a manifest. refused is what the error says; "" is none.
func (w *world) apply(t *testing.T, file, resources, refused string) {
	t.Helper()
	w.write(t, file, resources)
	err := w.run(t, file, false, true, 1<<30)
	if refused == "" {
		require.NoError(t, err)
		return
	}
	require.ErrorContains(t, err, refused)
}

const (
	xp = "x: {type: thing, config: {path: p}}"
	xq = "x: {type: thing, config: {path: q}}"
	yp = "y: {type: thing, config: {path: p}}"
	yq = "y: {type: thing, config: {path: q}}"
)

// Two resources that swap their things lose none, whether or not the id of the engine was known then, and is known now.
func TestASwapOfThingsLosesNone(t *testing.T) {
	for name, ids := range map[string][2]string{
		"by the address both times": {"", ""}, "by the id both times": {"1", "1"}, "by the address, then by the id": {"", "1"}, "by the id, then by the address": {"1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.at, w.id = "ssh://h", ids[0]
			w.apply(t, "a.yaml", xp+", "+yq, "")
			w.id = ids[1]
			w.apply(t, "a.yaml", xq+", "+yp, "")
			require.Empty(t, w.touched)
			w.apply(t, "a.yaml", xq+", "+yp, "")
			require.Empty(t, w.touched)
			require.Equal(t, map[string]int{"thing one/p": 1, "thing one/q": 1}, w.listed(t))
			w.apply(t, "a.yaml", "", "")
			require.Empty(t, w.things)
		})
	}
}

// One thing has one manifest, whether or not a run can find out the id of its engine.
func TestTheIDOfAnEngineIsNotKnownToEachRun(t *testing.T) {
	for name, ids := range map[string][2]string{"at first": {"", "1"}, "later": {"1", ""}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.at, w.id = "ssh://h", ids[0]
			w.apply(t, "a.yaml", xp, "")
			w.id = ids[1]
			w.apply(t, "b.yaml", yp, "a.yaml manages the same thing, as its resource x")
			w.apply(t, "a.yaml", xp, "")
			w.id = ids[0]
			w.apply(t, "a.yaml", xp, "")
			w.apply(t, "b.yaml", yp, "a.yaml manages the same thing, as its resource x")
			w.write(t, "a.yaml", "")
			w.id = ids[1]
			w.apply(t, "b.yaml", yp, "")
			w.apply(t, "a.yaml", "", "")
			require.Equal(t, map[string]bool{"thing one/p": true}, w.things, "the other manifest has it")
			w.id = ids[0]
			w.apply(t, "b.yaml", "", "")
			require.Empty(t, w.things)
		})
	}
	w := newWorld(t)
	w.at, w.silent = "ssh://h", errors.New("connection refused")
	w.apply(t, "a.yaml", xp, "the engine at ssh://h does not say which one it is")
	require.Empty(t, w.things)
	w.id, w.silent = "1", nil
	w.apply(t, "a.yaml", xp, "")
	w.id = "2" // another engine, at the same address
	clear(w.things)
	w.apply(t, "b.yaml", yp, "")
	require.Len(t, w.things, 1)
}

// A resource that cannot come to be another thing keeps what it is.
func TestAnOldThingStaysIfTheNewOneIsRefused(t *testing.T) {
	w := newWorld(t)
	w.apply(t, "a.yaml", xp, "")
	w.write(t, "b.yaml", yq)
	w.asked = func() { require.NoError(t, w.run(t, "b.yaml", false, false, 1<<30)) }
	w.apply(t, "a.yaml", xq, "b.yaml manages the same thing, as its resource y")
	require.Equal(t, map[string]int{"thing one/p": 1, "thing one/q": 1}, w.listed(t))
	require.Len(t, w.things, 2)
	w.apply(t, "b.yaml", "", "")
	w.apply(t, "a.yaml", xq, "")
	require.Equal(t, map[string]bool{"thing one/q": true}, w.things)
}

// What several runs come to at one time has one manifest: whatever each of them does, the second one waits, and looks
// again.
func TestTwoRunsDoNotHaveOneThing(t *testing.T) {
	const disk = "d: {type: disk}"
	for name, c := range map[string]struct {
		first, second, late string // resources of a.yaml and b.yaml, and of a.yaml when both are at work
		refused             string
	}{
		"both find it there":    {xp, yp, xp, "a.yaml manages the same thing, as its resource x"},
		"both take it over":     {"", yp, xp, "a.yaml manages the same thing, as its resource x"},
		"one removes it":        {"", yp, "", ""},
		"both take it by moved": {disk, "moved", "moved", "another run changed or took d of c.yaml while this run was at work: apply again"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			move := func(file, to string) {
				text := "plugs: {root: {path: one}}\nresources: {" + to + ": {type: disk}}\nmoved: [{from: \"c.yaml#d\", to: " + to + "}]\n"
				require.NoError(t, os.WriteFile(filepath.Join(w.dir, file), []byte(text), 0o600))
			}
			switch c.second {
			case "moved":
				w.apply(t, "c.yaml", disk, "")
				w.write(t, "c.yaml", "")
				move("a.yaml", "x")
				move("b.yaml", "y")
			default:
				if c.first == "" {
					w.apply(t, "c.yaml", "z: {type: thing, config: {path: p}}", "")
					w.write(t, "c.yaml", "")
				} else {
					w.things["thing one/p"] = true
				}
				w.write(t, "a.yaml", c.late)
				w.write(t, "b.yaml", c.second)
			}
			other := "a.yaml"
			if c.late == "" {
				other = "c.yaml"
			}
			w.asked = func() { require.NoError(t, w.run(t, other, false, true, 1<<30)) }
			err := w.run(t, "b.yaml", false, true, 1<<30)
			if c.refused != "" {
				require.ErrorContains(t, err, c.refused)
			} else {
				require.Error(t, err)
				require.NoError(t, w.run(t, "b.yaml", false, true, 1<<30), "it makes it")
			}
			require.Len(t, w.things, 1)
			for thing, times := range w.listed(t) {
				require.Equal(t, 1, times, thing)
			}
		})
	}
}

// takes writes a manifest that has from now on what another one has, as that says.
func (w *world) takes(t *testing.T, file, resource, from, to string) {
	t.Helper()
	text := "plugs: {root: {path: one}}\nresources: {" + resource + "}\nmoved: [{from: \"" + from + "\", to: " + to + "}]\n"
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, file), []byte(text), 0o600))
}

// A run that makes, removes or replaces what it has looks again, once no other run is at work on that, whether it has
// it still.
func TestWhatIsTakenMeanwhileIsNotTakenBack(t *testing.T) {
	for name, c := range map[string]struct{ first, second, refused string }{
		"known by its key":    {xp, yp, "b.yaml manages the same thing, as its resource y"},
		"known by its record": {"x: {type: disk}", "y: {type: disk}", "another run changed, took or removed what run "},
	} {
		for what, run := range map[string]func(w *world) error{
			"makes again": func(w *world) error { return w.run(t, "a.yaml", false, false, 1<<30) },
			"removes":     func(w *world) error { return w.run(t, "a.yaml", true, false, 1<<30) },
			"replaces":    func(w *world) error { return w.replace(t, "a.yaml", "x") },
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				w := newWorld(t)
				w.apply(t, "a.yaml", c.first, "")
				if what == "makes again" {
					clear(w.things)
				}
				w.takes(t, "b.yaml", c.second, "a.yaml#x", "y")
				w.asked = func() { require.NoError(t, w.run(t, "b.yaml", false, false, 1<<30)) }
				require.ErrorContains(t, run(w), c.refused)
				require.Len(t, w.things, 1)
				require.Len(t, w.listed(t), 1)
				w.write(t, "a.yaml", "")
				require.NoError(t, w.run(t, "b.yaml", true, false, 1<<30), "it is that one's")
				require.Empty(t, w.things)
				require.Empty(t, w.listed(t))
			})
		}
	}
}

// A destroy removes what a resource was before it came to be another thing, unless another manifest took that meanwhile.
func TestWhatItWasIsNotDestroyedIfTakenMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.apply(t, "a.yaml", xp, "")
	w.write(t, "a.yaml", xq)
	w.takes(t, "b.yaml", yp, "a.yaml#x", "y")
	inits := 0
	w.inited = func() {
		if inits++; inits == 2 { // that of what it was: it is known which that is
			w.inited = nil
			require.NoError(t, w.run(t, "b.yaml", false, false, 1<<30))
		}
	}
	require.NoError(t, w.run(t, "a.yaml", true, false, 1<<30))
	require.Nil(t, w.inited)
	require.Equal(t, map[string]bool{"thing one/p": true}, w.things)
	require.Equal(t, map[string]int{"thing one/p": 1}, w.listed(t))
}

// replace removes and makes again resources of a manifest.
func (w *world) replace(t *testing.T, file string, names ...string) error {
	t.Helper()
	return w.runOf(t, 1<<30, func(c *work.Config, on *work.Connection) *Run {
		text := must.Get(os.ReadFile(filepath.Join(w.dir, file)))(t)
		in := must.Get(c.Load([]manifest.Source{{Name: filepath.Join(w.dir, file), Data: text}}, work.LoadOptions{Replace: names}))(t)
		return Prepare(c, in, on, Order{Command: "apply", Files: []string{filepath.Join(w.dir, file)}})
	})
}

// Nothing that another manifest declares is removed to be made again, and no plan shows that.
func TestNothingIsReplacedThatAnotherManifestHas(t *testing.T) {
	for name, c := range map[string]struct{ before, now, other string }{
		"never made here":       {"", xp, yp},
		"it was something else": {xq, xp, yp},
		"known by the answer":   {"", "x: {type: loose, config: {names: [p]}}", "y: {type: loose, config: {names: [p]}}"},
	} {
		t.Run(name, func(t *testing.T) {
			const refused = "b.yaml manages the same thing, as its resource y"
			w := newWorld(t)
			w.apply(t, "a.yaml", c.before, "")
			w.apply(t, "b.yaml", c.other, "")
			w.write(t, "a.yaml", c.now)
			before := maps.Clone(w.things)
			w.plans = true
			require.ErrorContains(t, w.replace(t, "a.yaml", "x"), refused)
			require.Equal(t, report.Failed, w.plan.Resources[0].Status)
			w.plans = false
			require.ErrorContains(t, w.replace(t, "a.yaml", "x"), refused)
			require.Equal(t, before, w.things)
			require.Empty(t, w.touched)
			w.write(t, "b.yaml", "")
			require.NoError(t, w.replace(t, "a.yaml", "x"), "it is that one's now")
			require.Len(t, w.things, 1)
			w.apply(t, "b.yaml", "", "")
			require.Len(t, w.things, 1)
			w.apply(t, "a.yaml", "", "")
			require.Empty(t, w.things)
		})
	}
}

// A resource that is replaced, and is another thing by now, is made anew once: what it was goes with that.
func TestWhatIsAnotherThingIsReplacedOnce(t *testing.T) {
	w := newWorld(t)
	w.apply(t, "a.yaml", xp, "")
	w.write(t, "a.yaml", xq)
	w.things["thing one/q"], w.plans = true, true
	require.NoError(t, w.replace(t, "a.yaml", "x"))
	require.Len(t, w.plan.Resources, 2)
	require.True(t, w.plan.Resources[0].Replace)
	require.Equal(t, "path p", strings.Split(w.plan.Resources[1].Replaces, ",")[0])
	require.Equal(t, []string{"thing one/q", "thing one/p", "thing one/q"}, w.touched)
	require.Equal(t, map[string]bool{"thing one/q": true}, w.things)
	require.Equal(t, map[string]int{"thing one/q": 1}, w.listed(t))
}

// A destroy removes nothing of a resource of which another manifest has some by now.
func TestNothingIsDestroyedOfWhichAnotherManifestHasSome(t *testing.T) {
	const pq = "x: {type: loose, config: {names: [p, q]}}"
	for name, c := range map[string]struct{ first, other string }{
		"made here before":              {pq, "y: {type: loose, config: {names: [q]}}"},
		"made here before, with others": {pq, "y: {type: loose, config: {names: [q, r]}}"},
		"never made here":               {"", "y: {type: loose, config: {names: [q]}}"},
	} {
		t.Run(name, func(t *testing.T) {
			const refused = "b.yaml manages the same thing, as its resource y"
			w := newWorld(t)
			w.apply(t, "a.yaml", c.first, "")
			w.write(t, "a.yaml", "")
			w.apply(t, "b.yaml", c.other, "")
			before := maps.Clone(w.things)
			w.write(t, "a.yaml", pq)
			require.ErrorContains(t, w.run(t, "a.yaml", false, false, 1<<30), refused)
			require.ErrorContains(t, w.run(t, "a.yaml", true, false, 1<<30), refused)
			require.Equal(t, before, w.things)
			w.apply(t, "b.yaml", "", "")
			require.NoError(t, w.run(t, "a.yaml", true, false, 1<<30))
			require.Empty(t, w.things)
		})
	}
}

// A resource has one past: it does not take over what another manifest left, if it manages something already.
func TestAResourceThatManagesSomethingTakesNothingOver(t *testing.T) {
	w := newWorld(t)
	w.apply(t, "a.yaml", "x: {type: parts, config: {names: [p]}}", "")
	w.apply(t, "b.yaml", "y: {type: parts, config: {names: [q]}}", "")
	w.write(t, "b.yaml", "")
	mark := w.marks["part p"]
	w.apply(t, "a.yaml", "x: {type: parts, config: {names: [p, q]}}", `of b.yaml made as y, which that no longer declares; a resource takes over only if it manages nothing yet. Run "deployster destroy --orphans --target b.yaml#y", or "deployster state forget y --manifest b.yaml"`)
	require.Equal(t, mark, w.marks["part p"])
	require.Len(t, w.things, 2)
	w.apply(t, "b.yaml", "", "")
	w.apply(t, "a.yaml", "x: {type: parts, config: {names: [p, q]}}", "")
	require.Equal(t, map[string]string{"part p": mark, "part q": mark}, w.marks)
	w.apply(t, "a.yaml", "", "")
	require.Empty(t, w.things)
}

// loose is a type like parts that marks nothing: it removes whatever has one of its names.
func (w *world) loose(_ context.Context, call enginetest.Call) int {
	if len(call.Args) == 0 {
		fmt.Fprint(call.Stdout, `{"removable":true,"state_action":{"args":["state"]}}`)
		return 0
	}
	var in protocol.ActionInput
	if text, err := io.ReadAll(call.Stdin); err != nil || json.Unmarshal(text, &in) != nil {
		return 3
	}
	out := protocol.StateOutput{Status: protocol.Valid, State: map[string]any{}}
	for _, name := range in.Config["names"].([]any) {
		part := "part " + name.(string)
		out.Identities = append(out.Identities, map[string]any{"part": part})
		switch call.Args[0] {
		case "create":
			w.things[part] = true
		case "delete":
			delete(w.things, part)
		default:
			if w.things[part] == (in.Ensure == protocol.Absent) {
				out.Status, out.Actions = protocol.Stale, []protocol.Action{protocol.Do(map[bool]string{true: "delete", false: "create"}[w.things[part]], "")}
			}
		}
	}
	if call.Args[0] == "state" && json.NewEncoder(call.Stdout).Encode(out) != nil {
		return 3
	}
	return 0
}

// A type removes all that a resource made. So nothing of it is removed while somebody else has some of it.
func TestNothingIsRemovedOfWhichOthersHaveSome(t *testing.T) {
	for name, c := range map[string]struct{ others, refused string }{
		"another manifest, which found it": {"y: {type: loose, config: {names: [q]}}", "one of them is by now of b.yaml, as its resource y"},
		"another manifest, which made it":  {"y: {type: loose, config: {names: [q, r]}}", "one of them is by now of b.yaml, as its resource y"},
		"another resource":                 {"", "one of them is by now of resource z"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			rest := ""
			w.apply(t, "a.yaml", "x: {type: loose, config: {names: [p, q]}}", "")
			if w.write(t, "a.yaml", ""); c.others != "" {
				w.apply(t, "b.yaml", c.others, "")
			} else {
				rest = "z: {type: loose, config: {names: [q, r]}}"
			}
			w.apply(t, "a.yaml", rest, c.refused)
			require.True(t, w.things["part p"] && w.things["part q"])
			require.ErrorContains(t, w.run(t, "a.yaml", false, true, 1<<30), `to remove the others would remove that, too. Remove them by hand, then "deployster state forget x"`)
			w.apply(t, "b.yaml", "", "")
			w.apply(t, "a.yaml", "", "")
			require.Empty(t, w.things)
		})
	}
}

// Orphans of a newer manifest may use those of an older one, so they go first. Between manifests nothing says so.
func TestOrphansOfTheNewestManifestGoFirst(t *testing.T) {
	for name, order := range map[string][]string{"as their names": {"a.yaml", "b.yaml"}, "the other way round": {"b.yaml", "a.yaml"}} {
		t.Run(name, func(t *testing.T) {
			const older = xp + ", z: {type: thing, config: {path: r}, dependencies: {x: x}}"
			w := newWorld(t)
			w.apply(t, order[0], older, "")
			w.apply(t, order[1], yq, "")
			delete(w.things, "thing one/r")
			w.apply(t, order[0], older, "") // z is newer than y
			for _, file := range order {
				require.NoError(t, os.Remove(filepath.Join(w.dir, file)))
			}
			require.NoError(t, w.runOf(t, 1<<30, func(c *work.Config, on *work.Connection) *Run {
				c.Parallelism = 4
				return PrepareOrphans(c, must.Get(OrphansInput(c))(t), on, Order{Command: "destroy"}, nil)
			}))
			require.Equal(t, []string{"thing one/q", "thing one/r", "thing one/p"}, w.touched)
			require.Empty(t, w.listed(t))
		})
	}
}
