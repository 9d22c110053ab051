package object_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/pipeline/promotion/object/recording"
)

var update = flag.Bool("update", false, "write the tables beside the recordings")

// What real controllers wrote is read as it truly was, after each write and between the two halves
// of each. The table beside a recording says how each write is read.
func TestWhatControllersWroteIsReadAsItWas(t *testing.T) {
	files, err := filepath.Glob("testdata/recorded/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			r, err := recording.Load(file)
			require.NoError(t, err)
			got := r.Replay()
			assert.Zero(t, got.Early, "for how many milliseconds a revision is read as well before it is")
			assert.False(t, got.Open, "the reading at the end is wrong")
			for _, one := range got.Wrong {
				assert.Empty(t, one.Split, "%s is read as well too early in half of the write at %d ms", one.Revision, r.Steps[one.Step].At)
			}
			for _, one := range got.Readings {
				if recording.Counts(one.Reading) {
					assert.Contains(t, r.EverWell, one.Revision, "it was never well, and is read as well at %d ms", r.Steps[one.Step].At)
				}
			}
			assert.Equal(t, r.Ends, recording.Text(got.Readings[len(got.Readings)-1].Reading), "the reading at the end")
			if *update {
				require.NoError(t, os.WriteFile(recording.Beside(file), []byte(r.Table()), 0o600))
			}
			table, err := os.ReadFile(recording.Beside(file))
			require.NoError(t, err)
			assert.Equal(t, string(table), r.Table(), "%s: go test ./pipeline/promotion/object -update writes it anew", recording.Beside(file))
		})
	}
}
