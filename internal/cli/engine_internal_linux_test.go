package cli

import (
	"io"
	"os"
	"strconv"
	"testing"

	"github.com/deployster-go/deployster/control/runs"
)

// Auto takes the engine of a dead run where it can ask for what that run left, and
// no other because of it.
func TestAutoPrefersOCIOnlyForARunOfThisMachineAndUser(t *testing.T) {
	here, me := thisMachine(), strconv.Itoa(os.Geteuid())
	for name, c := range map[string]struct {
		used runs.EngineUsed
		want string
	}{
		"of this machine and user": {runs.EngineUsed{Kind: engineOCI, UID: me, Machine: here.id, Boot: here.boot, ID: t.TempDir()}, engineOCI},
		"of another machine":       {runs.EngineUsed{Kind: engineOCI, UID: me, Machine: "other", Boot: "other", Host: "other"}, engineDocker},
		"of another user":          {runs.EngineUsed{Kind: engineOCI, UID: me + "1", Machine: here.id, Boot: here.boot}, engineDocker},
		"of Docker":                {runs.EngineUsed{Kind: engineDocker, Machine: here.id, Boot: here.boot}, engineDocker},
	} {
		t.Run(name, func(t *testing.T) {
			a := &app{getenv: os.Getenv, global: globalFlags{engine: engineAuto}}
			e, err := a.chooseEngine(t.Context(), io.Discard, &runs.Unfinished{Run: "A", Used: c.used})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = e.Close() }()
			if info, err := e.Info(t.Context()); err != nil || info.Name != c.want {
				t.Errorf("it is %q, %v; want %q", info.Name, err, c.want)
			}
		})
	}
}
