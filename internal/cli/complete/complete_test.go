package complete

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/runner/report"
)

// logOf makes a log of events that are each "DEPLOYMENT TARGET NAME".
func logOf(t *testing.T, lines ...string) deploylog.Log {
	log := must.Get(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "log.db"), sqlite.Options{}))(t)
	t.Cleanup(func() { assert.NoError(t, log.Close()) })
	for _, line := range lines {
		f := strings.Fields(line)
		must.Get(log.Append(t.Context(), deploylog.Event{Deployment: f[0], Target: deploylog.Target(f[1]), Name: f[2]}))(t)
	}
	return log
}

func TestOnlyDeadRunsCanBeAbandoned(t *testing.T) {
	log := logOf(t,
		"ended run/m.yaml run-started", "ended run/m.yaml run-finished-successfully",
		"failed run/m.yaml run-started", "failed run/m.yaml run-failed",
		"dead run/m.yaml run-started", "dead action/a/b action-started",
		"abandoned run/m.yaml run-started", "abandoned run/m.yaml run-abandoned",
		"given run/m.yaml run-started",
		"lost run/other.yaml run-started", "lost run/other.yaml run-lost",
	)
	alive, err := runs.Begin(t.Context(), runs.Options{
		Log: log, Engine: &enginetest.Fake{}, ID: "alive", Target: "run/third.yaml", Revision: "1", OrphanTimeout: time.Minute, Notice: func(string) {},
	})
	require.NoError(t, err)
	defer alive.End()
	require.NoError(t, alive.Record(t.Context(), report.Event{Kind: report.RunStarted}))
	command := &cobra.Command{}
	new(engines.Flags).RegisterAbandon(command)
	require.NoError(t, command.Flags().Set("abandon", "given"))
	var names []string
	now := &Completion{Command: command, Ctx: t.Context(), Log: log}
	DeadRuns(now)
	for _, found := range now.Found {
		name, _, _ := strings.Cut(found, "\t")
		names = append(names, name)
	}
	assert.Equal(t, []string{"lost", "dead"}, names, "offered")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	late := &Completion{Command: command, Ctx: over, Log: log}
	if DeadRuns(late); len(late.Found) > 0 {
		t.Errorf("there was no time to read the log, and offered are %v", late.Found)
	}
}
