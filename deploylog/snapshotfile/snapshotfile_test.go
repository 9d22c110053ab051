package snapshotfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
)

func sample(seq int64) deploylog.Event {
	return deploylog.Event{
		Seq: seq, ID: "id", Deployment: "d", Target: "host/p/g/h", Revision: "r", Name: "host-deployed", Attempt: 1,
		CreatedAt: time.Unix(1, seq).UTC(), Data: []byte(`{"version":1}`),
	}
}

// Another version of the form may be of other events.
func TestASnapshotIsOfOneForm(t *testing.T) {
	dir, of, s := t.TempDir(), Origin{"l", "h"}, deploylog.Snapshot{Seq: 4, Events: []deploylog.Event{sample(3)}}
	require.NoError(t, Write(dir, "web", of, s, func(*os.File, bool) {}))
	got, read, ok := Read(dir, "web")
	assert.True(t, ok && got == of && fmt.Sprint(read) == fmt.Sprint(s), "it is %+v, %+v, %t", got, read, ok)
	for _, program := range []string{"", "web.v2"} {
		require.NoError(t, os.WriteFile(file(dir, "web"), encode(header{of, program}, s), 0o600))
		_, _, ok := Read(dir, "web")
		assert.False(t, ok, "that of program %q is read", program)
	}
}

func TestASnapshotThatIsTooLargeIsRefused(t *testing.T) {
	e := sample(3)
	e.Data = make([]byte, limit)
	err := Write(t.TempDir(), "web", Origin{"l", "h"}, deploylog.Snapshot{Seq: 4, Events: []deploylog.Event{e}}, func(*os.File, bool) {
		t.Error("a directory is made for it")
	})
	assert.ErrorContains(t, err, "at most 1073741824 are possible", "it is written, or refused because of")
}

func FuzzSnapshot(f *testing.F) {
	e := sample(3)
	whole := encode(header{Origin{"l", "h"}, "p"}, deploylog.Snapshot{Seq: 4, Events: []deploylog.Event{e}})
	f.Add(whole[:len(whole)-32])
	f.Add([]byte(form))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, _, ok := decode(b); ok {
			return // found the sum, too
		}
		made, s, ok := decode(summed(b))
		if !ok {
			return
		}
		for i, e := range s.Events {
			assert.True(t, e.Seq <= s.Seq && e.Seq >= 1 && (i <= 0 || e.Seq > s.Events[i-1].Seq), "event %d follows, up to %d", e.Seq, s.Seq)
		}
		assert.LessOrEqual(t, len(encode(made, s)), encodedSize(made, s))
		again, same, ok := decode(encode(made, s))
		assert.True(t, ok && again == made && fmt.Sprint(same) == fmt.Sprint(s), "%+v became %+v, %t", s, same, ok)
	})
}

// indexes are those of a log whose hash up to an event follows from a history.
func indexes(t *testing.T, dir, history string) *Indexes {
	x := &Indexes{Dir: dir, Share: func(*os.File, bool) {}, Origin: func(_ context.Context, seq int64) (Origin, error) {
		if seq > 10 {
			return Origin{}, nil
		}
		return Origin{"log", fmt.Sprint(history, seq)}, nil
	}}
	t.Cleanup(func() { assert.NoError(t, x.Close()) })
	return x
}

func wantIndex(t *testing.T, x *Indexes, seq int64, docs map[string]string) {
	t.Helper()
	index := must.Get(x.Open(t.Context(), "runs"))(t)
	got, found, err := index.Under(t.Context(), "a\x00")
	require.NoError(t, err)
	assert.Equal(t, seq, got)
	text := map[string]string{}
	for key, content := range found {
		text[key] = string(content)
	}
	assert.Equal(t, docs, text)
}

func TestAnIndexIsOfOneHistory(t *testing.T) {
	dir := t.TempDir()
	x := indexes(t, dir, "h")
	index := must.Get(x.Open(t.Context(), "runs"))(t)
	require.NoError(t, index.Write(t.Context(), 0, 4, map[string][]byte{"a\x00b": []byte("1"), "a\x00c": {}, "b": []byte("2")}))
	require.NoError(t, index.Write(t.Context(), 4, 7, map[string][]byte{"a\x00b": []byte("3"), "a\x00c": nil, "a\x00d": {}}))
	seq, docs, err := index.Read(t.Context(), "b", "a\x00b", "nothing")
	require.NoError(t, err)
	assert.Equal(t, map[string][]byte{"a\x00b": []byte("3"), "b": []byte("2")}, docs)
	assert.EqualValues(t, 7, seq)
	assert.ErrorIs(t, index.Write(t.Context(), 4, 8, nil), deploylog.ErrIndexMoved, "another process wrote it")
	many := make([]string, 3*atOnce)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	_, docs, err = index.Read(t.Context(), append(many, "b")...)
	assert.True(t, err == nil && len(docs) == 1, "%v, %v", docs, err)

	wantIndex(t, indexes(t, dir, "h"), 7, map[string]string{"a\x00b": "3", "a\x00d": ""})
	wantIndex(t, indexes(t, dir, "restored"), 0, map[string]string{})
	// Who has the former one open does not write to this one.
	require.Error(t, index.Write(t.Context(), 7, 8, map[string][]byte{"a\x00e": {}}))
	wantIndex(t, indexes(t, dir, "restored"), 0, map[string]string{})
}

// What is damaged, of a log that has fewer events, or written by others is none.
func TestAnIndexThatCannotBeUsed(t *testing.T) {
	for name, spoil := range map[string]func(dir, file string) error{
		"no database":  func(_, file string) error { return os.WriteFile(file, []byte("SQLite format 4"), 0o600) },
		"empty":        func(_, file string) error { return os.Truncate(file, 0) },
		"cut":          func(_, file string) error { return os.Truncate(file, 100) },
		"others' dir":  func(dir, _ string) error { return os.Chmod(dir, 0o770) },
		"a file there": func(dir, _ string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			x := indexes(t, dir, "h")
			index := must.Get(x.Open(t.Context(), "runs"))(t)
			require.NoError(t, index.Write(t.Context(), 0, 4, map[string][]byte{"a\x00b": []byte("1")}))
			require.NoError(t, x.Close())
			found := must.Get(filepath.Glob(filepath.Join(dir, "*"+indexSuffix)))(t)
			require.Len(t, found, 1)
			require.NoError(t, spoil(found[0], filepath.Join(found[0], indexFile)))
			wantIndex(t, indexes(t, dir, "h"), 0, map[string]string{})
		})
	}
}

func TestOldIndexesArePruned(t *testing.T) {
	dir := t.TempDir()
	x := indexes(t, dir, "h")
	index := must.Get(x.Open(t.Context(), "runs"))(t)
	require.NoError(t, index.Write(t.Context(), 0, 4, map[string][]byte{"a\x00b": []byte("1")}))
	for _, old := range []bool{false, true} {
		before := time.Now().Add(-time.Hour)
		if old {
			before = time.Now().Add(time.Hour)
		}
		for _, dry := range []bool{true, false} {
			pruned := must.Get(Prune(dir, before, dry))(t)
			assert.Equal(t, old, pruned.Count > 0, "%+v", pruned)
		}
	}
	assert.Empty(t, must.Get(os.ReadDir(dir))(t))
	// Who has it open reads it to the end.
	_, docs, err := index.Read(t.Context(), "a\x00b")
	assert.True(t, err == nil && len(docs) == 1, "%v, %v", docs, err)
}
