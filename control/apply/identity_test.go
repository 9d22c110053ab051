package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

// killable is a log of a process that is killed at one of its appends.
type killable struct {
	deploylog.Log
	mu   sync.Mutex
	left int // appends until then
	dead bool
}

var errKilled = errors.New("killed")

func (k *killable) Append(ctx context.Context, events ...deploylog.Event) ([]deploylog.Event, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead = k.dead || k.left <= 0; k.dead {
		return nil, errKilled
	}
	k.left--
	return k.Log.Append(ctx, events...)
}

func (k *killable) Read(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return k.Log.Read(ctx, f)
}

// world is what two manifests manage in one workspace, by type and by what identifies it.
type world struct {
	dir     string
	log     deploylog.Log
	texts   work.Texts // with the key of hashes
	things  map[string]bool
	marks   map[string]string // of disks: the id of the resource that made it
	touched []string          // by actions of the run
	asked   func()            // is called when a type was asked for the first time, before it answers; may be nil
	inited  func()            // is called when a type is asked what it is; may be nil
	at      string            // the address of the engine, where that is on another machine; "" is this one
	id      string            // of that engine; "" is none
	silent  error             // why that cannot be found out; nil is that it can
	plans   bool              // runs are planned before, and plan is what that said
	plan    *report.Plan
	runs    int
	next    int
}

// thing is a type that says what identifies its things: the member path of a configuration, below a plug.
func (w *world) thing(_ context.Context, call enginetest.Call) int {
	return w.answer(call, `{"removable":true,"plugs":{"root":{"container_path":"/root","holds":true}},"identity":["path"],"state_action":{"args":["state"]}}`,
		func(in protocol.ActionInput) string {
			host, _, err := call.Host("/root")
			if err != nil {
				return ""
			}
			return fmt.Sprintf("thing %s/%v", filepath.Base(host), in.Config["path"])
		})
}

// disk is a type that says nothing, and finds its disks by what it keeps.
func (w *world) disk(_ context.Context, call enginetest.Call) int {
	return w.answer(call, `{"removable":true,"keeps":true,"state_action":{"args":["state"]}}`, func(in protocol.ActionInput) string {
		id, _ := in.Kept["id"].(string)
		for disk, mark := range w.marks {
			if id == "" && in.Interrupted && mark == in.ID && w.things[disk] {
				id = disk
			}
		}
		return id
	})
}

// answer answers a question about what a configuration, or what is kept, identifies; "" is nothing yet.
func (w *world) answer(call enginetest.Call, init string, which func(protocol.ActionInput) string) int {
	if len(call.Args) == 0 {
		if w.inited != nil {
			w.inited()
		}
		fmt.Fprint(call.Stdout, init)
		return 0
	}
	var in protocol.ActionInput
	if text, err := io.ReadAll(call.Stdin); err != nil || json.Unmarshal(text, &in) != nil {
		return 3
	}
	of := which(in)
	there := w.things[of]
	if asked := w.asked; asked != nil {
		w.asked = nil
		asked()
	}
	out := protocol.StateOutput{Status: protocol.Valid, State: map[string]any{}}
	if there && strings.HasPrefix(of, "disk") {
		out.Keep = map[string]any{"id": of}
	}
	switch action := call.Args[0]; {
	case action == "create":
		if of == "" {
			w.next++
			of = fmt.Sprintf("disk %d", w.next)
			w.marks[of] = in.ID
			fmt.Fprintf(call.Stdout, "{\"keep\":{\"id\":%q}}\n", of)
		}
		w.things[of] = true
		w.touched = append(w.touched, of)
		return 0
	case action == "delete":
		delete(w.things, of)
		w.touched = append(w.touched, of)
		return 0
	case in.Ensure == protocol.Absent && there:
		out = protocol.StateOutput{Status: protocol.Stale, StaleState: map[string]any{}, Actions: []protocol.Action{protocol.Do("delete", "")}}
	case in.Ensure != protocol.Absent && !there:
		out = protocol.StateOutput{Status: protocol.Stale, Actions: []protocol.Action{protocol.Do("create", "")}}
	}
	if json.NewEncoder(call.Stdout).Encode(out) != nil {
		return 3
	}
	return 0
}

// The log has no hash of a secret that somebody can try values against, who has only the log.
func TestIdentitiesThatAreSecret(t *testing.T) {
	w := newWorld(t)
	w.texts = work.NewTexts(filepath.Join(w.dir, ".deployster", "objects"), w.dir, nil)
	apply := func(pin string) (*runs.Thing, string) {
		t.Helper()
		text := "variables: {pin: {type: string, writeOnly: true, default: \"" + pin + "\"}}\nplugs: {root: {path: one}}\nresources: {x: {type: thing, config: {path: \"{{ pin }}\"}}}\n"
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, "a.yaml"), []byte(text), 0o600))
		require.NoError(t, w.run(t, "a.yaml", false, false, 1<<30))
		h := must.Get(runs.ReadHistory(context.Background(), w.log, nil))(t)
		all := must.Get(h.All(t.Context()))(t)
		require.Len(t, all, 1)
		return all[0], fmt.Sprint(w.touched)
	}
	first, _ := apply("pin-1234")
	again, touched := apply("pin-1234")
	require.Equal(t, "[]", touched)
	require.Equal(t, first.Identity, again.Identity)
	require.Regexp(t, "^hmac:[0-9a-f]{8}:[0-9a-f]{12}$", first.Identity.Parts["path"])
	require.NoError(t, os.RemoveAll(filepath.Join(w.dir, ".deployster", "objects")))
	other, touched := apply("pin-1234")
	require.Equal(t, "[]", touched, "with another key it is the same thing")
	require.NotEqual(t, first.Identity.Key, other.Identity.Key, "the key is not in the log")
	salt := filepath.Join(w.dir, ".deployster", "objects", "salt")
	key, err := os.ReadFile(salt)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(salt, nil, 0o600))
	err = w.run(t, "a.yaml", false, false, 1<<30)
	require.ErrorContains(t, err, "x: something secret identifies it, and the key for hashes of such things cannot be read")
	require.ErrorContains(t, err, salt)
	require.NoError(t, os.WriteFile(salt, key, 0o600))
	_, touched = apply("pin-4321")
	require.Equal(t, "[thing one/pin-1234 thing one/pin-4321]", touched)
}

// check is a type that waits for something of others, which it makes here at its first action.
func (w *world) check(_ context.Context, call enginetest.Call) int {
	return w.answer(call, `{"removable":true,"makes_nothing":true,"state_action":{"args":["state"]}}`,
		func(in protocol.ActionInput) string { return fmt.Sprintf("seen %v", in.Config["url"]) })
}

// What makes nothing is no thing: it is on no list, of several manifests, and not to be removed where another engine is used.
func TestWhatMakesNothingIsNoThing(t *testing.T) {
	w := newWorld(t)
	w.at, w.id = "tcp://one:2375", "one"
	for _, file := range []string{"a.yaml", "b.yaml"} {
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, file), []byte("resources: {x: {type: check, config: {url: u}}}\n"), 0o600))
		require.NoError(t, w.run(t, file, false, false, 1<<30))
	}
	w.at, w.id = "tcp://two:2375", "two"
	clear(w.things)
	require.NoError(t, w.run(t, "a.yaml", false, true, 1<<30))
	h := must.Get(runs.ReadHistory(t.Context(), w.log, nil))(t)
	require.Empty(t, must.Get(h.All(t.Context()))(t))
	require.NoError(t, w.run(t, "a.yaml", true, false, 1<<30))
}

// parts is a type whose resources have several parts, each of which is marked with the id of the resource that made
// it. It does not touch those of others.
func (w *world) parts(_ context.Context, call enginetest.Call) int {
	if len(call.Args) == 0 {
		fmt.Fprint(call.Stdout, `{"removable":true,"keeps":true,"state_action":{"args":["state"]}}`)
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
		mark, mine := w.marks[part], w.marks[part] == in.ID
		switch {
		case call.Args[0] == "create":
			w.marks[part], w.things[part] = in.ID, true
		case call.Args[0] == "delete" && mine:
			delete(w.marks, part)
			delete(w.things, part)
		case in.Ensure == protocol.Absent && mine:
			out.Status, out.Actions = protocol.Stale, []protocol.Action{protocol.Do("delete", "")}
		case in.Ensure != protocol.Absent && mark == "" && out.Status == protocol.Valid:
			out.Status, out.Actions = protocol.Stale, []protocol.Action{protocol.Do("create", "")}
		case in.Ensure != protocol.Absent && mark != "" && !mine:
			out.Status, out.Message = protocol.Conflict, part+" belongs to "+mark
		}
	}
	if out.Status == protocol.Conflict {
		out = protocol.AnswerConflict(out.Message, out.Identities...)
	}
	if call.Args[0] == "state" && json.NewEncoder(call.Stdout).Encode(out) != nil {
		return 3
	}
	return 0
}

// Each of several things of a resource has one manifest. A resource takes over what another manifest no longer
// declares if it has all of it.
func TestSeveralThingsOfAResource(t *testing.T) {
	w := newWorld(t)
	apply := func(file, resources, refused string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, file), []byte("resources: {"+resources+"}\n"), 0o600))
		err := w.run(t, file, false, true, 1<<30)
		if refused == "" {
			require.NoError(t, err)
			return
		}
		require.ErrorContains(t, err, refused)
	}
	apply("a.yaml", "x: {type: parts, config: {names: [p, q]}}", "")
	id := w.marks["part p"]
	apply("b.yaml", "y: {type: parts, config: {names: [q, r]}}", "a.yaml manages the same thing, as its resource x")
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "a.yaml"), []byte("resources: {}\n"), 0o600))
	apply("b.yaml", "y: {type: parts, config: {names: [q, r]}}", "part q belongs to "+id)
	apply("b.yaml", "y: {type: parts, config: {names: [r, q, p]}}", "")
	require.Equal(t, map[string]string{"part p": id, "part q": id, "part r": id}, w.marks)
	apply("a.yaml", "", "")
	require.Len(t, w.things, 3, "the other manifest has them")
	apply("a.yaml", "x: {type: parts, config: {names: [p]}}", "b.yaml manages the same thing, as its resource y")
	apply("b.yaml", "", "")
	require.Empty(t, w.things)
}

// A run that found nothing waits for who makes it meanwhile, and does not make it, too.
func TestTwoRunsDoNotMakeOneThing(t *testing.T) {
	for name, emptied := range map[string]bool{"that still declares it": false, "that no longer declares it": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for i, file := range []string{"a.yaml", "b.yaml"} {
				of := declared{root: "one", resources: map[string]string{fmt.Sprint("x", i): "p"}}
				require.NoError(t, os.WriteFile(filepath.Join(w.dir, file), []byte(of.text()), 0o600))
			}
			w.asked = func() {
				require.NoError(t, w.run(t, "b.yaml", false, false, 1<<30))
				if emptied {
					require.NoError(t, os.WriteFile(filepath.Join(w.dir, "b.yaml"), []byte("resources: {}\n"), 0o600))
				}
				w.touched = nil
			}
			err := w.run(t, "a.yaml", false, false, 1<<30)
			require.Empty(t, w.touched)
			if !emptied {
				require.ErrorContains(t, err, "b.yaml manages the same thing, as its resource x1")
				return
			}
			require.ErrorContains(t, err, "b.yaml made it while this run was at work, and no longer declares it: apply again, to take it over")
			require.NoError(t, w.run(t, "a.yaml", false, false, 1<<30))
			require.Empty(t, w.touched)
		})
	}
}

func newWorld(t *testing.T) *world {
	w := &world{dir: t.TempDir(), log: reconciletest.InMemory(t)(), things: map[string]bool{}, marks: map[string]string{}}
	for _, root := range []string{"one", "two"} {
		require.NoError(t, os.Mkdir(filepath.Join(w.dir, root), 0o700))
	}
	return w
}

// declared is what a manifest declares: by name, the path of a thing, or nothing for a disk.
type declared struct {
	root      string
	resources map[string]string
	moved     map[string]string // by name, from what of another manifest
}

func (d declared) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "plugs: {root: {path: %s}}\nresources:\n", d.root)
	for _, name := range slices.Sorted(maps.Keys(d.resources)) {
		if path := d.resources[name]; path == "" {
			fmt.Fprintf(&b, "  %s: {type: disk}\n", name)
		} else {
			fmt.Fprintf(&b, "  %s: {type: thing, config: {path: %s}}\n", name, path)
		}
	}
	if len(d.resources) == 0 {
		b.WriteString("  {}\n")
	}
	if len(d.moved) > 0 {
		b.WriteString("moved:\n")
	}
	for _, name := range slices.Sorted(maps.Keys(d.moved)) {
		fmt.Fprintf(&b, "  - {from: %q, to: %s}\n", d.moved[name], name)
	}
	return b.String()
}

// identities are those of the things that it declares; those of disks only the log knows.
func (d declared) identities() (all []string) {
	for _, path := range d.resources {
		if path != "" {
			all = append(all, fmt.Sprintf("thing %s/%s", d.root, path))
		}
	}
	return all
}

// run carries out a run of the manifest in a file; left is after how many appends its process is killed.
func (w *world) run(t require.TestingT, file string, removing, prune bool, left int) error {
	return w.runOf(t, left, func(c *work.Config, on *work.Connection) *Run {
		text := must.Get(os.ReadFile(filepath.Join(w.dir, file)))(t)
		in, err := c.Load([]manifest.Source{{Name: filepath.Join(w.dir, file), Data: text}}, work.LoadOptions{Removing: removing})
		require.NoError(t, err, "%s", text)
		return Prepare(c, in, on, Order{Command: "apply", Files: []string{filepath.Join(w.dir, file)}, Removing: removing, Prune: prune})
	})
}

// runOf is run of what is prepared.
func (w *world) runOf(t require.TestingT, left int, prepare func(*work.Config, *work.Connection) *Run) error {
	w.runs++
	w.touched = nil
	log := &killable{Log: w.log, left: left}
	fake := &enginetest.Fake{Images: map[string]enginetest.FakeImage{
		"check": {Program: w.check, Entrypoint: []string{"/type"}},
		"parts": {Program: w.parts, Entrypoint: []string{"/type"}}, "loose": {Program: w.loose, Entrypoint: []string{"/type"}},
		"thing": {Program: w.thing, Entrypoint: []string{"/type"}}, "disk": {Program: w.disk, Entrypoint: []string{"/type"}},
	}}
	info := must.Get(fake.Info(context.Background()))(t)
	c := &work.Config{Inputs: work.Inputs{Workspace: w.dir, Now: time.Now, Hide: func(any) {}}, Log: log, Texts: w.texts, Parallelism: 1, Pull: engine.PullMissing, Notice: func(string) {}}
	on := &work.Connection{Engine: fake, Info: info, Images: fake}
	if w.at != "" {
		on.Info.Remote, on.Info.Address, on.Recovery = true, w.at, elsewhere{w}
	}
	r := prepare(c, on)
	err := r.Execute(context.Background(), runner.ConfirmNo, false, func(with *runner.Runner) (err error) {
		if w.plans {
			w.plan, err = r.Plan(context.Background(), with)
		}
		return err
	})
	if log.dead {
		return errKilled
	}
	return err
}

// elsewhere is the engine of a world on another machine. It is a runs.Engines.
type elsewhere struct{ *world }

func (e elsewhere) Used(context.Context) runs.EngineUsed {
	return runs.EngineUsed{Kind: "fake", Address: e.at, ID: e.id}
}

func (e elsewhere) ID(context.Context) (string, error) { return e.id, e.silent }

func (e elsewhere) Open(context.Context, runs.EngineUsed) (runs.Containers, func(), error) {
	return nil, nil, errors.New("no run died")
}

// listed is what runs are known to have made: of what a type says what it is, what identifies it.
func (w *world) listed(t require.TestingT) (all map[string]int) {
	h := must.Get(runs.ReadHistory(context.Background(), w.log, nil))(t)
	all = map[string]int{}
	things := must.Get(h.All(context.Background()))(t)
	for _, thing := range things {
		if thing.Type == "thing" {
			all[fmt.Sprintf("thing %s/%s", filepath.Base(thing.Identity.Parts["plug root"]), thing.Identity.Parts["path"])]++
			continue
		}
		past := must.Get(runs.Memory{Log: w.log}.PastOf(context.Background(), thing.Name, thing.ID, true))(t)
		id, _ := past.Kept["id"].(string)
		all[id]++
	}
	return all
}

// Whatever is edited, renamed, moved, applied, pruned, destroyed and killed, of two manifests over one world: it
// holds what is declared and what is listed, each once, and nothing that the other manifest declares was touched.
func TestTheWorldHoldsWhatIsDeclaredAndListed(t *testing.T) { //nolint:gocyclo // the steps of a story, each beside what must hold
	paths := []string{"", "p", "q", "r"}
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		w.at = rapid.SampledFrom([]string{"", "ssh://h"}).Draw(rt, "engine")
		files := []string{"a.yaml", "b.yaml"}
		manifests := []declared{{root: "one"}, {root: "one"}}
		applied := []bool{false, false} // what the file declares is what was applied, wholly
		write := func(i int) {
			require.NoError(rt, os.WriteFile(filepath.Join(w.dir, files[i]), []byte(manifests[i].text()), 0o600))
		}
		write(0)
		write(1)
		for range rapid.IntRange(1, 14).Draw(rt, "steps") {
			i := rapid.IntRange(0, 1).Draw(rt, "manifest")
			other := 1 - i
			left := 1 << 30
			if rapid.IntRange(0, 4).Draw(rt, "killed") == 0 {
				left = rapid.IntRange(0, 30).Draw(rt, "after")
			}
			prune, removing := rapid.Bool().Draw(rt, "prune"), false
			switch rapid.SampledFrom([]string{"edit", "edit", "rename", "move", "apply", "apply", "apply", "destroy"}).Draw(rt, "step") {
			case "edit":
				d := declared{root: rapid.SampledFrom([]string{"one", "two"}).Draw(rt, "root"), resources: map[string]string{}}
				for _, path := range rapid.SliceOfNDistinct(rapid.SampledFrom(paths), 0, 3, rapid.ID).Draw(rt, "paths") {
					d.resources[rapid.SampledFrom([]string{"x", "y", "z"}).Draw(rt, "name")] = path
				}
				manifests[i], applied[i] = d, false
				write(i)
				continue
			case "rename":
				require.NoError(rt, os.Remove(filepath.Join(w.dir, files[i])))
				files[i] = fmt.Sprintf("m%d.yaml", w.runs*10+i)
				write(i)
				applied[i] = false
				continue
			case "move": // from the other, which no longer declares it
				names := slices.Sorted(maps.Keys(manifests[other].resources))
				if len(names) == 0 || !applied[other] {
					continue
				}
				name := rapid.SampledFrom(names).Draw(rt, "moved")
				mine := declared{root: manifests[other].root, resources: map[string]string{"moved": manifests[other].resources[name]}, moved: map[string]string{"moved": files[other] + "#" + name}}
				rest := maps.Clone(manifests[other].resources)
				delete(rest, name)
				manifests[i], manifests[other].resources = mine, rest
				delete(manifests[other].moved, name)
				applied = []bool{false, false}
				write(i)
				write(other)
				continue
			case "apply":
			case "destroy":
				removing = true
			}
			before := maps.Clone(w.things)
			w.id = rapid.SampledFrom([]string{"", "1"}).Draw(rt, "id of the engine")
			err := w.run(rt, files[i], removing, prune, left)
			listed := w.listed(rt)
			theirs := manifests[other].identities()
			for _, touched := range w.touched {
				if slices.Contains(theirs, touched) && applied[other] {
					rt.Fatalf("%s is touched, which %s declares", touched, files[other])
				}
			}
			unnamed := listed[""] // disks of which a killed run has not kept the id yet: they are found by their marks
			for thing := range w.things {
				if listed[thing] == 0 && strings.HasPrefix(thing, "disk") {
					unnamed--
					continue
				}
				require.Positive(rt, listed[thing], "%s is there and not listed: %v, %v", thing, listed, err)
			}
			require.GreaterOrEqual(rt, unnamed, 0, "of %v, listed are %v", w.things, listed)
			for thing, times := range listed {
				require.True(rt, times == 1 || thing == "", "%s is listed %d times", thing, times)
			}
			if applied[i] = err == nil && !removing; err != nil {
				continue
			}
			for _, mine := range manifests[i].identities() {
				if removing && slices.Contains(theirs, mine) {
					continue
				}
				require.Equal(rt, !removing, w.things[mine], "%s, of which there was %v", mine, before)
			}
			for thing := range listed {
				require.True(rt, thing == "" || w.things[thing] || !applied[other], "%s is listed, and is not there", thing)
			}
		}
	})
}
