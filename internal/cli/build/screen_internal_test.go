package build

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/reason"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/query/querytest"
)

// The screen of a dispatcher does not say of the groups that it has that their inventory is
// another.
func TestTheScreenKnowsTheInventoryOfItsDispatcher(t *testing.T) {
	clock := func() time.Time { return querytest.Noon }
	log, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "log.db"), sqlite.Options{})
	require.NoError(t, err)
	defer log.Close()
	a := &app.App{Printer: &output.Printer{Out: os.Stdout, Err: os.Stderr, Getenv: func(string) string { return "" }, Now: clock, Format: "text"}}
	groups := querytest.NewGroups(t.Context(), log, clock, 1)
	if _, err := groups.Command(t.Context(), build.Submit{
		Triggered: record.Triggered{Name: "base"}, Places: []record.Place{{Platform: "linux/amd64", Inventory: "prod"}}, Jobs: []record.JobSpec{{Package: "gcc"}},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := groups.Dispatch(); err != nil {
		t.Fatal(err)
	}
	for inventory, wants := range map[string]bool{"prod": false, "another": true} {
		s := openScreen(t.Context(), a, log, func(record.Place) []build.Worker { return nil }, inventory)
		shown, _ := s.source()
		require.Len(t, shown, 1, "groups are shown")
		says := false
		for _, r := range shown[0].Reasons {
			says = says || r.Code == reason.OtherInventory
		}
		assert.Equal(t, wants, says, "with the inventory %s it says that it is another: %t", inventory, says)
	}
}
