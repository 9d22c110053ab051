package snapshotfile

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
)

func sample(seq int64) deploylog.Event {
	return deploylog.Event{
		Seq: seq, ID: "id", Deployment: "d", Target: "host/p/g/h", Revision: "r", Name: "host-deployed", Attempt: 1,
		CreatedAt: time.Unix(1, seq).UTC(), Data: []byte(`{"version":1}`),
	}
}

// Another version of the program may need other events.
func TestASnapshotIsOfOneProgram(t *testing.T) {
	dir, of, s := t.TempDir(), Origin{"l", "h"}, deploylog.Snapshot{Seq: 4, Events: []deploylog.Event{sample(3)}}
	require.NoError(t, Write(dir, "web", of, s, func(*os.File, bool) {}))
	got, read, ok := Read(dir, "web")
	assert.True(t, ok && got == of && fmt.Sprint(read) == fmt.Sprint(s), "it is %+v, %+v, %t", got, read, ok)
	for _, program := range []string{"", program() + "x"} {
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
