package query

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/query/querytest"
)

// environmentAnswers are all that is known of the environments of a log.
func environmentAnswers(tb testing.TB, log deploylog.Log, until int64) (all []any, e *Environments) {
	e = NewEnvironments(log, func() time.Time { return snapshotNoon.Add(12 * time.Hour) })
	require.NoError(tb, e.Follow(tb.Context(), until))
	status := must.Get(e.Status())(tb)
	why := must.Get(e.Explain(record.Target(querytest.Environment), "", false))(tb)
	revision := must.Get(e.Revision(querytest.Environment, 0))(tb)
	return []any{e.Head(), e.last, e.List(""), status, why, revision, e.Orphans("")}, e
}

func TestALongHistoryOfEnvironmentsIsNotReadAgain(t *testing.T) {
	dir := t.TempDir()
	large(t, openFile(t, dir), 20, 20)
	readOnce(t, dir, func(log deploylog.Log, until int64) []any {
		answers, _ := environmentAnswers(t, log, until)
		return answers
	}, func(log deploylog.Log) ([]deploylog.Event, error) {
		return environments.New(log, time.Now).Command(t.Context(), querytest.Environment, environment.CordonHosts{Hosts: []string{"web-h1"}, By: "alice"})
	})
}

// One state that cannot be read again has the log read instead.
func TestASnapshotThatCannotBeReadIsNone(t *testing.T) {
	log := openFile(t, t.TempDir())
	large(t, log, 8, 14)
	want, _ := environmentAnswers(t, log, 0)
	for name, data := range map[string]string{"": `{}`, "restored": `[]`} {
		bad := &snapshots{log, map[string]deploylog.Snapshot{"environments": {Seq: 3, Events: []deploylog.Event{{Seq: 3, Target: record.Target(querytest.Environment), Name: name, Data: []byte(data)}}}}}
		got, _ := environmentAnswers(t, bad, 0)
		assert.Equal(t, want, got, "with %q", data)
	}
}

func BenchmarkEnvironmentsOfALongLog(b *testing.B) {
	log := openFile(b, b.TempDir()).Log
	large(b, log, 50, 50)
	compare(b, log, func(log deploylog.Log) int64 {
		_, e := environmentAnswers(b, log, 0)
		return e.Head()
	})
}
