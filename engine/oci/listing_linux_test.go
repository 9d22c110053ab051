package oci

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
)

// What is made and removed at any moment, also within one tick of the clock of the file system, is seen by the next look.
func TestAListingIsNeverOld(t *testing.T) {
	d := runDir(t.TempDir())
	var l listing
	assert.Empty(t, must.Get(l.of(d))(t))
	require.NoError(t, d.make())
	var want []string
	check := func(when string) {
		ids, err := l.of(d)
		got := slices.Sorted(slices.Values(ids))
		require.True(t, err == nil && slices.Equal(got, want), "%s there are %v (%v), want %v", when, got, err, want)
	}
	check("at first")
	for i := range 200 {
		id := fmt.Sprintf("%032x", i)
		require.NoError(t, os.WriteFile(d.record(id), nil, 0o600))
		want = append(want, id)
		check("after one more")
		if i%3 == 0 {
			require.NoError(t, os.Remove(d.record(want[0])))
			want = want[1:]
			check("after one less")
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(d.records(), strings.Repeat("0", idLength)+".log"), nil, 0o600))
	check("beside a log")
	require.NoError(t, os.RemoveAll(d.records()))
	want = nil
	check("without the directory")
}

// A directory that nobody changes any more is not read again.
func TestAListingThatHasSettledIsRemembered(t *testing.T) {
	d := runDir(t.TempDir())
	require.NoError(t, d.make())
	id := strings.Repeat("a", idLength)
	require.NoError(t, os.WriteFile(d.record(id), nil, 0o600))
	before := time.Now().Add(-2 * settled)
	require.NoError(t, os.Chtimes(d.records(), before, before))
	var l listing
	first, err := l.of(d)
	require.True(t, err == nil && slices.Equal(first, []string{id}), "%v %v", first, err)
	again, err := l.of(d)
	assert.True(t, err == nil && &again[0] == &first[0], "it was read again: %v, %v", again, err)
	for _, at := range []time.Time{time.Now(), before.Add(-time.Hour), time.Now().Add(time.Hour)} {
		require.NoError(t, os.Chtimes(d.records(), at, at))
		again := must.Get(l.of(d))(t)
		assert.True(t, &again[0] != &first[0], "changed at %s, it was not read again: %v", at, again)
	}
}
