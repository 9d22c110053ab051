package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
)

// watching are the events after one that a log's watch delivers.
func watching(t *testing.T, l deploylog.Log, after int64) <-chan deploylog.Event {
	t.Helper()
	watched := make(chan deploylog.Event)
	go func() {
		for e, err := range l.Watch(t.Context(), deploylog.Filter{After: after}) {
			if err != nil {
				t.Error(err)
				return
			}
			select {
			case watched <- e:
			case <-t.Context().Done():
				return
			}
		}
	}()
	return watched
}

// awaitListening waits until the watches of a schema hear what the server says of appends.
func awaitListening(t *testing.T, schema string) {
	t.Helper()
	sql(t, schema, `DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_stat_activity, log WHERE state = 'idle' AND query = format('LISTEN "deployster_%s"', lower(log.id)))
		LOOP PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$`)
}

// What nobody tells of is found by looking. Only the first of several may be found since the
// connection by which news come has just been made.
func TestAWatchFindsWhatNobodyTellsOf(t *testing.T) {
	t.Parallel()
	const schema = "untold"
	l := open(t, server.URL(schema))
	appends(t, l, event("d", "a"))
	watched := watching(t, l, 0)
	soon(t, watched)
	awaitListening(t, schema)
	for seq := int64(2); seq < 5; seq++ {
		sql(t, schema, `INSERT INTO events SELECT $1::bigint, id || $1::bigint, deployment, target, revision, event, $1::bigint, created_at, data, registered, hash FROM events WHERE seq = 1`, seq)
		assert.Equal(t, seq, soon(t, watched).Seq)
	}
}

// A watch whose connection for news is cut, again and again, misses nothing that others append.
func TestAWatchOutlivesTheConnectionForNews(t *testing.T) {
	t.Parallel()
	const schema = "deaf"
	l, other := open(t, server.URL(schema)), open(t, server.URL(schema))
	watched := watching(t, l, 0)
	for seq := int64(1); seq < 4; seq++ {
		awaitListening(t, schema)
		sql(t, schema, `DO $$ BEGIN IF 0 = (SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity, log WHERE query = format('LISTEN "deployster_%s"', lower(log.id)))
			THEN RAISE 'nobody listens'; END IF; END $$`)
		e := event("d", "a")
		e.Attempt = int(seq)
		require.NoError(t, errOf(other.Append(t.Context(), e)))
		assert.Equal(t, seq, soon(t, watched).Seq)
	}
}

func TestAWatchOfAClosedLogListensToNothing(t *testing.T) {
	l := open(t, server.URL("closed"))
	require.NoError(t, l.Close())
	for _, err := range l.Watch(t.Context(), deploylog.Filter{}) {
		assert.Error(t, err, "an event of a closed log")
	}
}
