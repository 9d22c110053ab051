package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/internal/objects"
)

// counted makes names that were not used before.
var counted atomic.Int64

// eachCut does something again and again, and cuts the connection at one message after the other, before
// it reaches the server or after, until it is done before the cut. What it was to do is checked
// with the connection whole again; a cut that was not survived has to say what was attempted.
func eachCut(t *testing.T, schema string, says string, try func(url string, cut func()) error, check func(url string, failed error)) {
	t.Helper()
	const enough = 1 << 40
	for _, after := range []bool{false, true} {
		failures := 0
		for parts := int64(0); ; parts++ {
			c, url := newCable(t, schema)
			c.after.Store(after)
			err := try(url, func() { c.parts.Store(parts) })
			left := c.parts.Swap(enough)
			if err != nil {
				failures++
				if !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
					t.Errorf("cut after %d parts: %q does not say %q in a line", parts, err, says)
				}
			}
			check(url, err)
			if t.Failed() {
				t.Fatalf("cut after %d parts (the last reached the server: %v): %v", parts, after, err)
			}
			if left > 0 && left < enough {
				break
			}
		}
		if failures < 3 {
			t.Errorf("of all cuts %d were noticed", failures)
		}
	}
}

// Wherever the connection is cut while locks are taken, and taken over, a process has all of them or
// none, and whoever tries next has them.
func TestWhereverTheConnectionIsCutLocksAreTakenWhollyOrNot(t *testing.T) {
	const schema = "cut_locks"
	names := []string{"one", "two", "new"}
	other := open(t, server.URL(schema))
	var l *postgres.Log
	eachCut(t, schema, "lock \"", func(url string, cut func()) error {
		leave(t, schema, names[:2]...)
		l = open(t, url)
		l.SetAttendPause(time.Hour) // what is sent beside what is cut would be cut, too
		l.SetPatience(time.Hour)
		cut()
		var failed []error
		for _, one := range l.TryLocks(names...) {
			if one.Err != nil {
				failed = append(failed, one.Err)
			}
		}
		if len(failed) == 0 {
			return nil
		}
		if len(failed) < len(names) {
			t.Errorf("of %d locks %d are not taken: %v", len(names), len(failed), failed[0])
		}
		return failed[0]
	}, func(_ string, failed error) {
		if failed == nil {
			for i, one := range other.TryLocks(names...) {
				if !errors.Is(one.Err, deploylog.ErrLocked) {
					t.Errorf("somebody else has %s, too: %v", names[i], one.Err)
				}
			}
			l.UnlockAll(names...)
		}
		ctx, cancel := context.WithTimeout(t.Context(), longest)
		defer cancel()
		for _, next := range []*postgres.Log{l, other} {
			var unlock []func()
			for _, name := range names {
				one, err := next.Lock(ctx, name)
				if err != nil {
					t.Fatalf("afterwards: %v", err)
				}
				unlock = append(unlock, one)
			}
			if _, err := next.Append(t.Context(), event(fmt.Sprint(counted.Add(1)), "a")); err != nil {
				t.Errorf("an append afterwards: %v", err)
			}
			for _, one := range unlock {
				one()
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Wherever the connection is cut while an object is kept, it is there whole or not at all, and it is
// there if that was said; it can be kept again.
func TestWhereverTheConnectionIsCutObjectsAreKeptWhollyOrNot(t *testing.T) {
	const schema = "cut_objects"
	other := objects.Via(open(t, server.URL(schema)).Objects())
	var content []byte
	var store objects.Store
	eachCut(t, schema, "storing object ", func(url string, cut func()) error {
		content = fmt.Append(bytes.Repeat([]byte("x"), 100<<10), counted.Add(1))
		store = objects.Via(open(t, url).Objects())
		cut()
		_, err := store.Keep(content)
		return err
	}, func(_ string, failed error) {
		got, err := other.Load(objects.Hash(content))
		missing := failed != nil && errors.Is(err, objects.ErrMissing)
		if !missing && (err != nil || !bytes.Equal(got, content)) {
			t.Errorf("there are %d bytes: %v", len(got), err)
		}
		if _, err := store.Keep(content); err != nil {
			t.Errorf("again: %v", err)
		}
		if got, err := other.Load(objects.Hash(content)); err != nil || !bytes.Equal(got, content) {
			t.Errorf("after it was kept again there are %d bytes: %v", len(got), err)
		}
	})
}

// Wherever the connection is cut while an object is fetched, nobody gets a part of it, or is told
// that it is missing, and it can be fetched again.
func TestWhereverTheConnectionIsCutObjectsAreFetchedWhollyOrNot(t *testing.T) {
	const schema = "cut_fetches"
	content := bytes.Repeat([]byte("x"), 100<<10)
	hash, err := objects.Via(open(t, server.URL(schema)).Objects()).Keep(content)
	if err != nil {
		t.Fatal(err)
	}
	var store objects.Store
	eachCut(t, schema, "object "+hash, func(url string, cut func()) error {
		store = objects.Via(open(t, url).Objects())
		cut()
		got, err := store.Load(hash)
		if err == nil && !bytes.Equal(got, content) || errors.Is(err, objects.ErrMissing) || errors.Is(err, objects.ErrAltered) {
			t.Errorf("there are %d bytes: %v", len(got), err)
		}
		return err
	}, func(string, error) {
		if got, err := store.Load(hash); err != nil || !bytes.Equal(got, content) {
			t.Errorf("again there are %d bytes: %v", len(got), err)
		}
	})
}

// Wherever the connection is cut while a log is made, or brought to this version, that is done wholly
// or not at all, and the next command does it.
func TestWhereverTheConnectionIsCutALogIsMadeWhollyOrNot(t *testing.T) {
	attempts := map[string]string{"cut_new": "create the log: ", "cut_old": "bring the log to version 2: "}
	for schema, before := range map[string]string{
		"cut_new": "DROP SCHEMA cut_new CASCADE",
		"cut_old": "DROP TABLE objects, salt, protected; ALTER TABLE log DISABLE TRIGGER USER; UPDATE log SET version = 1; ALTER TABLE log ENABLE TRIGGER USER",
	} {
		t.Run(schema, func(t *testing.T) {
			if err := open(t, server.URL(schema)).Close(); err != nil {
				t.Fatal(err)
			}
			said := 0
			eachCut(t, schema, "open deployment log: ", func(url string, cut func()) error {
				sql(t, server, schema, before)
				cut()
				l, err := postgres.Open(t.Context(), url, postgres.Options{})
				if err == nil {
					err = l.Close()
				} else if strings.Contains(err.Error(), attempts[schema]) {
					said++
				}
				return err
			}, func(url string, failed error) {
				var tables, triggers, version int64
				c := connected(t, server, schema)
				defer c.Close(context.Background())
				does(t, c, "BEGIN ISOLATION LEVEL REPEATABLE READ") // the server may be about to commit
				if err := c.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM pg_tables WHERE schemaname = $1), (SELECT count(*) FROM pg_trigger WHERE tgrelid::regclass::text IN ('log', 'events') AND tgenabled = 'O')",
					schema).Scan(&tables, &triggers); err != nil {
					t.Fatal(err)
				}
				if tables > 0 {
					if err := c.QueryRow(t.Context(), "SELECT version FROM log").Scan(&version); err != nil {
						t.Fatal(err)
					}
				}
				state := fmt.Sprintf("%d tables, %d triggers, version %d", tables, triggers, version)
				whole, none := "6 tables, 2 triggers, version 2", map[string]string{"cut_new": "0 tables, 0 triggers, version 0", "cut_old": "3 tables, 2 triggers, version 1"}[schema]
				if state != whole && (failed == nil || state != none) {
					t.Errorf("%v, and there are %s", failed, state)
				}
				if _, err := open(t, url).Append(t.Context(), event(fmt.Sprint(counted.Add(1)), "a")); err != nil {
					t.Errorf("the next command: %v", err)
				}
			})
			if said < 3 {
				t.Errorf("%d errors say that they %s", said, attempts[schema])
			}
		})
	}
}
