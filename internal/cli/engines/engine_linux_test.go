package engines

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"

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
