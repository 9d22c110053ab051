package postgres_test

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/protected"
)

func TestObjectsAreWhatTheirHashSays(t *testing.T) {
	one, other := open(t, server.URL("objects")), open(t, server.URL("objects"))
	store := objects.Via(one.Objects())
	for _, content := range [][]byte{[]byte("a text\n"), {}, nil, bytes.Repeat([]byte{0, 255}, objects.MaxSize/2)} {
		for range 2 {
			if _, err := store.Keep(content); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := objects.Via(other.Objects()).Load(objects.Hash(content)); err != nil || !bytes.Equal(got, content) {
			t.Errorf("of %d bytes there are %d: %v", len(content), len(got), err)
		}
	}
	missing := objects.Hash([]byte("missing"))
	if _, err := store.Load(missing); !errors.Is(err, objects.ErrMissing) || !strings.Contains(err.Error(), "schema=objects") {
		t.Errorf("what is missing: %v", err)
	}
	if err := one.Objects().Keep(missing, []byte("another")); err == nil {
		t.Error("the database keeps what has another hash")
	}
	sql(t, server, "objects", "ALTER TABLE objects DROP CONSTRAINT objects_check; UPDATE objects SET content = 'forged' WHERE octet_length(content) = 7")
	if _, err := store.Load(objects.Hash([]byte("a text\n"))); !errors.Is(err, objects.ErrAltered) {
		t.Errorf("what was altered: %v", err)
	}
}

func TestThereIsOneSalt(t *testing.T) {
	one, other := objects.Via(open(t, server.URL("salt")).Objects()), objects.Via(open(t, server.URL("salt")).Objects())
	if _, err := one.Salt(); !errors.Is(err, objects.ErrMissing) || !errors.Is(err, objects.ErrSalt) {
		t.Errorf("none: %v", err)
	}
	first, err := one.MakeSalt()
	second, failed := other.MakeSalt()
	if err != nil || failed != nil || !bytes.Equal(first, second) || len(first) != objects.SaltSize {
		t.Errorf("%x and %x, %v, %v", first, second, err, failed)
	}
}

// What is needed, or was stored again lately, is not removed.
func TestOldObjectsAreRemoved(t *testing.T) {
	store := objects.Via(open(t, server.URL("pruned")).Objects())
	for _, content := range []string{"needed", "old", "again", "new"} {
		if content == "new" {
			sql(t, server, "pruned", "UPDATE objects SET stored = now() - interval '2 days'")
			if _, err := store.Keep([]byte("again")); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := store.Keep([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	needed := func(hash string) bool { return hash == objects.Hash([]byte("needed")) }
	for _, dryRun := range []bool{true, false} {
		pruned, err := store.Prune(t.Context(), time.Now().Add(-objects.MinAge), needed, dryRun)
		if err != nil || pruned.Count != 1 || pruned.Bytes != 3 || time.Since(pruned.Oldest) < 47*time.Hour {
			t.Errorf("%+v, %v", pruned, err)
		}
	}
	for content, there := range map[string]bool{"needed": true, "old": false, "again": true, "new": true} {
		if _, err := store.Load(objects.Hash([]byte(content))); (err == nil) != there {
			t.Errorf("%s: %v", content, err)
		}
	}
}

func TestProtectedDocuments(t *testing.T) {
	store := protected.Via(open(t, server.URL("protected")).Documents())
	ref, err := store.Put(map[string]string{"password": "geheim"})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := protected.Via(open(t, server.URL("protected")).Documents())
	var got map[string]string
	if err := elsewhere.Get(ref, &got); err != nil || got["password"] != "geheim" {
		t.Errorf("%v, %v", got, err)
	}
	if pruned, err := store.Prune(func(string) bool { return false }, time.Now().Add(time.Hour), true); err != nil || len(pruned) != 1 || pruned[0].Name != ref.Name {
		t.Errorf("%v, %v", pruned, err)
	}
	sql(t, server, "protected", "UPDATE protected SET content = replace(convert_from(content, 'utf8'), 'geheim', 'forged')::bytea")
	if err := store.Get(ref, &got); err == nil || !strings.Contains(err.Error(), "it is not what was written") || strings.Contains(err.Error(), "forged") {
		t.Errorf("what was altered: %v", err)
	}
	if err := errors.Join(store.Remove(ref), store.Remove(ref)); err != nil {
		t.Error(err)
	}
	if err := store.Get(ref, &got); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "schema=protected") {
		t.Errorf("what was removed: %v", err)
	}
}

// How old something is, is by the clock of the server: whoever is a day ahead removes nothing that is new.
func TestAClockThatIsAheadRemovesNothingNew(t *testing.T) {
	ahead := func() time.Time { return time.Now().Add(25 * time.Hour) }
	l, err := postgres.Open(t.Context(), server.URL("ahead"), postgres.Options{Now: ahead})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	texts, documents := objects.Via(l.Objects()), protected.Via(l.Documents())
	_, err = texts.Keep([]byte("new"))
	_, failed := documents.Put("new")
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	none := func(string) bool { return false }
	if pruned, err := texts.Prune(t.Context(), ahead().Add(-objects.MinAge), none, false); err != nil || pruned.Count != 0 {
		t.Errorf("%+v, %v", pruned, err)
	}
	if pruned, err := documents.Prune(none, ahead().Add(-time.Hour), false); err != nil || len(pruned) != 0 {
		t.Errorf("%+v, %v", pruned, err)
	}
}

// A log of the first version gets what it lacks, by who owns it.
func TestALogOfTheFirstVersion(t *testing.T) {
	l := open(t, server.URL("first"))
	if _, err := l.Append(t.Context(), event("d", "a")); err != nil {
		t.Fatal(err)
	}
	sql(t, server, "first", `DROP TABLE objects, salt, protected; ALTER TABLE log DISABLE TRIGGER USER; UPDATE log SET version = 1; ALTER TABLE log ENABLE TRIGGER USER;
		CREATE ROLE late LOGIN; GRANT USAGE ON SCHEMA first TO late; GRANT SELECT ON log, events TO late`)
	late := strings.Replace(server.URL("first"), "postgres@", "late@", 1)
	if _, err := postgres.Open(t.Context(), late, postgres.Options{}); err == nil || !strings.Contains(err.Error(), "whoever owns the schema makes") {
		t.Errorf("as who may not: %v", err)
	}
	if reading, err := postgres.Open(t.Context(), late, postgres.Options{ReadOnly: true}); err != nil {
		t.Errorf("to read: %v", err)
	} else if err := reading.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		again := open(t, server.URL("first"))
		if _, err := objects.Via(again.Objects()).Keep([]byte("a text")); err != nil {
			t.Error(err)
		}
		if v, err := again.Verify(t.Context()); err != nil || v.Events != 1 || again.ID() != l.ID() {
			t.Errorf("%+v, %v", v, err)
		}
	}
	sql(t, server, "first", "DO $$ BEGIN UPDATE log SET id = 'x'; RAISE 'it was changed'; EXCEPTION WHEN raise_exception THEN IF SQLERRM NOT LIKE '%append-only%' THEN RAISE; END IF; END $$")
}

func TestALogThatIsToExistIsNotMade(t *testing.T) {
	if _, err := postgres.Open(t.Context(), server.URL("absent"), postgres.Options{Existing: true}); !errors.Is(err, postgres.ErrNoLog) {
		t.Errorf("%v", err)
	}
	open(t, server.URL("present"))
	read, err := postgres.Open(t.Context(), server.URL("present"), postgres.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if err := read.Objects().KeepSalt(make([]byte, objects.SaltSize)); err == nil || !strings.Contains(err.Error(), "reading only") {
		t.Errorf("a salt by who only reads: %v", err)
	}
}
