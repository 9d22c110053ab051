package engines

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/inventory"
)

func TestAutoPrefersOCIOnlyForARunOfThisMachineAndUser(t *testing.T) {
	here := here()
	for name, c := range map[string]struct {
		used runs.EngineUsed
		want string
	}{
		"of this machine and user": {runs.EngineUsed{Kind: OCI, UID: here.UID, Machine: here.Machine, Boot: here.Boot, ID: t.TempDir()}, OCI},
		"of another machine":       {runs.EngineUsed{Kind: OCI, UID: here.UID, Machine: "other", Boot: "other", Host: "other"}, Docker},
		"of another user":          {runs.EngineUsed{Kind: OCI, UID: here.UID + "1", Machine: here.Machine, Boot: here.Boot}, Docker},
		"of Docker":                {runs.EngineUsed{Kind: Docker, Machine: here.Machine, Boot: here.Boot}, Docker},
	} {
		t.Run(name, func(t *testing.T) {
			a := app.New()
			a.Global = app.GlobalFlags{Engine: Auto}
			e := must.Get(chooseEngine(t.Context(), a, io.Discard, inventory.Kubernetes{}, Flags{Unfinished: &runs.Unfinished{Run: "A", Used: c.used}}))(t)
			defer func() { _ = e.Close() }()
			info, err := e.Info(t.Context())
			assert.True(t, err == nil && info.Name == c.want, "it is %q, %v; want %q", info.Name, err, c.want)
		})
	}
}

// What ran as processes of a machine has ended if the machine was started anew since, and only then.
func TestWhereARunWasAndWhetherItsMachineWasStartedAnew(t *testing.T) {
	here := here()
	require.NotEmpty(t, here.Boot)
	here.Machine = Machine()
	for name, c := range map[string]struct {
		change               func(*runs.EngineUsed)
		restarted, elsewhere bool
	}{
		"as it is now":                      {func(*runs.EngineUsed) {}, false, false},
		"another boot":                      {func(u *runs.EngineUsed) { u.Boot = "other" }, here.Machine != "", false},
		"another boot of another machine":   {func(u *runs.EngineUsed) { u.Boot, u.Machine, u.Host = "other", "other", "other" }, false, true},
		"another boot, of an engine beside": {func(u *runs.EngineUsed) { u.Boot, u.Local = "other", false }, false, false},
		"an unknown boot":                   {func(u *runs.EngineUsed) { u.Boot = "" }, false, false},
		"a container of this machine":       {func(u *runs.EngineUsed) { u.Machine, u.Host = "other", "other" }, false, false},
		"an old log":                        {func(u *runs.EngineUsed) { u.Boot, u.Machine = "", "" }, false, false},
		"an old log of another machine":     {func(u *runs.EngineUsed) { u.Boot, u.Machine, u.Host = "", "", "other" }, false, true},
	} {
		u := here
		u.Local = true
		c.change(&u)
		assert.Equal(t, []bool{c.restarted, c.elsewhere}, []bool{restarted(u), elsewhere(u)}, name)
	}
}
