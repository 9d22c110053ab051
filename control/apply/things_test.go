package apply

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
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
