package runs_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine/enginetest"
)

// shared is a log of several machines.
type shared struct{ deploylog.Log }

func (shared) Shared() bool { return true }

// A workspace of another machine is not here, and is not gone for that.
func TestWhoseAThingOfAnotherMachineIs(t *testing.T) {
	here, gone := t.TempDir(), filepath.Join(t.TempDir(), "gone")
	for name, tc := range map[string]struct {
		made, now      string // machines
		workspace, was string
		one            bool // the log is of one machine
		of, here       bool
	}{
		"the same":                                       {"one", "one", here, here, false, true, true},
		"a workspace that was moved":                     {"one", "one", here, gone, false, true, true},
		"a workspace of another machine":                 {"one", "two", here, gone, false, false, false},
		"the same workspace, such as that of a CI":       {"one", "two", here, here, false, true, false},
		"from when no machine was recorded":              {"", "two", here, gone, false, false, false},
		"on machines that nothing tells apart":           {"", "", here, gone, false, false, false},
		"another workspace that is there":                {"one", "one", here, os.TempDir(), false, false, true},
		"moved with its log to another machine":          {"one", "two", here, gone, true, true, true},
		"from when no machine was recorded, in one file": {"", "two", here, gone, true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			var log deploylog.Log = shared{reconciletest.InMemory(t)()}
			if tc.one {
				log = log.(shared).Log
			}
			o := runs.Options{
				Log: log, Engine: &enginetest.Fake{}, ID: "RUN1", Target: "run/x", Revision: "rev", OrphanTimeout: time.Minute, Notice: func(string) {},
				Manifest: []string{"a.yaml"}, Workspace: tc.was, Machine: tc.made,
			}
			r, err := runs.Begin(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer r.End()
			if err := r.Record(t.Context(), makes("x", thing("x"))); err != nil {
				t.Fatal(err)
			}
			h, err := runs.ReadHistory(context.Background(), log)
			if err != nil {
				t.Fatal(err)
			}
			o.Workspace, o.Machine = tc.workspace, tc.now
			made, _ := h.Thing("x")
			if made.Of(o.Owner()) != tc.of || made.Here(o.Owner()) != tc.here {
				t.Errorf("it is of the manifest: %v, of the machine: %v", made.Of(o.Owner()), made.Here(o.Owner()))
			}
			moves := h.Moves(o.Owner(), func(string) string { return "y" })
			if all := h.Undeclared(o.Owner(), none); (len(all) > 0) != tc.of || (len(moves) > 0) != tc.of {
				t.Errorf("not declared are %v, moves are %v", all, moves)
			}
		})
	}
}
