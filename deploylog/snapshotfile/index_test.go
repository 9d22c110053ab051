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
