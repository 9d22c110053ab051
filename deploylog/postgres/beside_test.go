package postgres_test

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
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
		pruned, err := store.Prune(t.Context(), time.Now().Add(-objects.MinAge), needed, dryRun)
		assert.True(t, err == nil && pruned.Count == 1 && pruned.Bytes == 3 && time.Since(pruned.Oldest) > 47*time.Hour, "%+v, %v", pruned, err)
	}
	for content, there := range map[string]bool{"needed": true, "old": false, "again": true, "new": true} {
		assert.Equal(t, there, errOf(store.Load(objects.Hash([]byte(content)))) == nil, content)
	}
}

func TestProtectedDocuments(t *testing.T) {
	t.Parallel()
	store := protected.Via(open(t, server.URL("protected")).Documents())
	ref, err := store.Put(map[string]string{"password": "geheim"})
	require.NoError(t, err)
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

// How old something is, is by the clock of the server: whoever is a day ahead removes nothing that is new.
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

// A log of the first version gets what it lacks, by who owns it.
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

// A snapshot is of use to this log with this history, and to no other.
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
	pruned, err := l.PruneSnapshots(time.Now().Add(time.Hour), false)
	assert.True(t, err == nil && pruned.Count == 1, "%+v, %v", pruned, err)
}
