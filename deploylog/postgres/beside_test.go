package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/protected"
)

func TestObjectsAreWhatTheirHashSays(t *testing.T) {
	t.Parallel()
	one, other := open(t, server.URL("objects")), open(t, server.URL("objects"))
	store := objects.Via(one.Objects())
	for _, content := range [][]byte{[]byte("a text\n"), {}, nil, bytes.Repeat([]byte{0, 255}, objects.MaxSize/2)} {
		require.NoError(t, errOf(store.Keep(content)))
		loads(t, objects.Via(other.Objects()), content)
	}
	require.NoError(t, errOf(store.Keep([]byte("a text\n"))), "what is there")
	missing := objects.Hash([]byte("missing"))
	wantError(t, errOf(store.Load(missing)), objects.ErrMissing, "schema=objects")
	assert.Error(t, one.Objects().Keep(missing, []byte("another")), "the database keeps what has another hash")
	sql(t, "objects", "ALTER TABLE objects DROP CONSTRAINT objects_check; UPDATE objects SET content = 'forged' WHERE octet_length(content) = 7")
	assert.ErrorIs(t, errOf(store.Load(objects.Hash([]byte("a text\n")))), objects.ErrAltered, "what was altered")
}

func TestThereIsOneSalt(t *testing.T) {
	t.Parallel()
	one, other := objects.Via(open(t, server.URL("salt")).Objects()), objects.Via(open(t, server.URL("salt")).Objects())
	wantError(t, errOf(one.Salt()), objects.ErrMissing)
	wantError(t, errOf(one.Salt()), objects.ErrSalt)
	first, err := one.MakeSalt()
	second, failed := other.MakeSalt()
	require.NoError(t, errors.Join(err, failed))
	assert.Equal(t, first, second)
	assert.Len(t, first, objects.SaltSize)
}

// What is needed, or was stored again lately, is not removed.
func TestOldObjectsAreRemoved(t *testing.T) {
	t.Parallel()
	store := objects.Via(open(t, server.URL("pruned")).Objects())
	for _, content := range []string{"needed", "old", "again", "new"} {
		if content == "new" {
			sql(t, "pruned", "UPDATE objects SET stored = now() - interval '2 days'")
			require.NoError(t, errOf(store.Keep([]byte("again"))))
		}
		require.NoError(t, errOf(store.Keep([]byte(content))))
	}
	needed := func(hash string) bool { return hash == objects.Hash([]byte("needed")) }
	for _, dryRun := range []bool{true, false} {
		pruned := must.Get(store.Prune(t.Context(), time.Now().Add(-objects.MinAge), needed, dryRun))(t)
		assert.True(t, pruned.Count == 1 && pruned.Bytes == 3 && time.Since(pruned.Oldest) > 47*time.Hour, "%+v", pruned)
	}
	for content, there := range map[string]bool{"needed": true, "old": false, "again": true, "new": true} {
		assert.Equal(t, there, errOf(store.Load(objects.Hash([]byte(content)))) == nil, content)
	}
}

func TestProtectedDocuments(t *testing.T) {
	t.Parallel()
	store := protected.Via(open(t, server.URL("protected")).Documents())
	ref := must.Get(store.Put(map[string]string{"password": "geheim"}))(t)
	elsewhere := protected.Via(open(t, server.URL("protected")).Documents())
	var got map[string]string
	require.NoError(t, elsewhere.Get(ref, &got))
	assert.Equal(t, "geheim", got["password"])
	pruned, err := store.Prune(func(string) bool { return false }, time.Now().Add(time.Hour), true)
	assert.True(t, err == nil && len(pruned) == 1 && pruned[0].Name == ref.Name, "%v, %v", pruned, err)
	sql(t, "protected", "UPDATE protected SET content = replace(convert_from(content, 'utf8'), 'geheim', 'forged')::bytea")
	err = store.Get(ref, &got)
	wantError(t, err, nil, "it is not what was written")
	assert.NotContains(t, err.Error(), "forged")
	assert.NoError(t, errors.Join(store.Remove(ref), store.Remove(ref)))
	wantError(t, store.Get(ref, &got), fs.ErrNotExist, "schema=protected")
}

func TestAClockThatIsAheadRemovesNothingNew(t *testing.T) {
	t.Parallel()
	ahead := func() time.Time { return time.Now().Add(25 * time.Hour) }
	l := openWith(t, server.URL("ahead"), postgres.Options{Now: ahead})
	texts, documents := objects.Via(l.Objects()), protected.Via(l.Documents())
	require.NoError(t, errors.Join(errOf(texts.Keep([]byte("new"))), errOf(documents.Put("new"))))
	none := func(string) bool { return false }
	pruned, err := texts.Prune(t.Context(), ahead().Add(-objects.MinAge), none, false)
	assert.True(t, err == nil && pruned.Count == 0, "%+v, %v", pruned, err)
	removed, err := documents.Prune(none, ahead().Add(-time.Hour), false)
	assert.True(t, err == nil && len(removed) == 0, "%+v, %v", removed, err)
}

func TestALogOfTheFirstVersion(t *testing.T) {
	t.Parallel()
	l := open(t, server.URL("first"))
	appends(t, l, event("d", "a"))
	sql(t, "first", firstVersion+"; CREATE ROLE late LOGIN; GRANT USAGE ON SCHEMA first TO late; GRANT SELECT ON log, events TO late")
	late := as("late", server.URL("first"))
	wantError(t, notOpened(t, late, postgres.Options{}), nil, "whoever owns the schema makes")
	openWith(t, late, postgres.Options{ReadOnly: true})
	for range 2 {
		again := open(t, server.URL("first"))
		assert.NoError(t, errOf(objects.Via(again.Objects()).Keep([]byte("a text"))))
		verified(t, again, 1)
		assert.Equal(t, l.ID(), again.ID())
	}
	wantError(t, errOf(connected(t, server, "first").Exec(t.Context(), "UPDATE log SET id = 'x'")), nil, "append-only")
}

func TestALogThatIsToExistIsNotMade(t *testing.T) {
	t.Parallel()
	wantError(t, notOpened(t, server.URL("absent"), postgres.Options{Existing: true}), postgres.ErrNoLog)
	open(t, server.URL("present"))
	read := openWith(t, server.URL("present"), postgres.Options{ReadOnly: true})
	wantError(t, read.Objects().KeepSalt(make([]byte, objects.SaltSize)), nil, "reading only")
}

func TestASnapshotIsOfOneHistory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache", "snapshots")
	opened := func(schema string) *postgres.Log {
		return openWith(t, server.URL(schema), postgres.Options{Snapshots: dir})
	}
	l, other := opened("snapshots"), opened("other_snapshots")
	for _, each := range []*postgres.Log{l, other} {
		require.NoError(t, errOf(each.Append(t.Context(), event("d", "a"), event("d", "b"))))
	}
	require.NoError(t, l.KeepSnapshot(t.Context(), "pipeline", deploylog.Snapshot{Seq: 2, Events: []deploylog.Event{}}))
	s, ok := opened("snapshots").Snapshot(t.Context(), "pipeline")
	assert.True(t, ok && s.Seq == 2, "%+v, %v", s, ok)
	_, ok = other.Snapshot(t.Context(), "pipeline")
	assert.False(t, ok, "it is of another log")
	assert.Error(t, open(t, server.URL("snapshots")).KeepSnapshot(t.Context(), "pipeline", deploylog.Snapshot{}), "one was kept nowhere")
	sql(t, "snapshots", "SET session_replication_role = replica; UPDATE events SET hash = sha256(hash) WHERE seq = 2")
	_, ok = l.Snapshot(t.Context(), "pipeline")
	assert.False(t, ok, "it is of another history")
	assert.Equal(t, 1, must.Get(l.PruneSnapshots(time.Now().Add(time.Hour), false))(t).Count)
}

// A long log is read in parts, each as far as a page is likely to be filled, with whatever is selected of it.
func TestNothingOfALongLogIsLeftOut(t *testing.T) {
	t.Parallel()
	const long, most = 20_000, 5000 // in one append
	l := open(t, server.URL("long"))
	var all []deploylog.Event
	for n := 0; n < long; n += most {
		some := make([]deploylog.Event, most)
		for i := range some {
			some[i] = event(fmt.Sprint(n), fmt.Sprint(i))
			switch at := n + i; {
			case at == 5 || at == long/2 || at == long-1:
				some[i].Name = "host-seldom"
			case at < most && at%2 == 0 || at > long-most:
				some[i].Target = deploylog.Target("stage/" + fmt.Sprint(i))
			}
		}
		some = must.Get(l.Append(t.Context(), some...))(t)
		all = append(all, some...)
	}
	for name, f := range map[string]deploylog.Filter{
		"all":                           {},
		"the seldom":                    {Name: "host-seldom"},
		"what is nowhere":               {Name: "host-never"},
		"half, none, and all":           {Target: "stage/"},
		"one target":                    {Target: "host/77"},
		"one deployment":                {Deployment: "15000"},
		"a part":                        {After: 4095, Until: 18_432},
		"after all but one":             {After: long - 1},
		"after all":                     {After: long},
		"after what there cannot be":    {After: 1<<63 - 1},
		"the newest":                    {Last: 5000},
		"the newest of few":             {Last: 2, Name: "host-seldom"},
		"of one deployment, the newest": {Last: 4097, Deployment: "5000"},
	} {
		var want []int64
		for _, e := range all {
			if f.Selects(e) {
				want = append(want, e.Seq)
			}
		}
		if f.Last > 0 {
			want = want[max(0, len(want)-f.Last):]
		}
		var got []int64
		for _, e := range read(t, l, f) {
			got = append(got, e.Seq)
		}
		assert.True(t, slices.Equal(got, want), "%s: %d events are read, want %d", name, len(got), len(want))
	}
	verified(t, l, long)
}

// Whoever may write to the table may write there what no log has.
func TestASequenceNumberThatThereCannotBeIsFound(t *testing.T) {
	t.Parallel()
	l := open(t, server.URL("forged"))
	appends(t, l, event("1", "a"))
	sql(t, "forged", `INSERT INTO events SELECT 9223372036854775807, id, 'forged', target, revision, event, attempt, created_at, data, registered, hash FROM events`)
	for name, f := range map[string]deploylog.Filter{"all": {}, "one deployment": {Deployment: "forged", After: 1}} {
		got := read(t, l, f)
		assert.True(t, len(got) > 0 && got[len(got)-1].Seq == math.MaxInt64, "%s: read are %+v", name, got)
	}
	assert.ErrorIs(t, errOf(l.Verify(t.Context())), deploylog.ErrCorrupt, "verified")
}

func watching(t *testing.T, l deploylog.Log, after int64) <-chan deploylog.Event {
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
