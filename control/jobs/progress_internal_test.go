package jobs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
)

// What is noted of an attempt is read again, whatever was cut short before it.
func TestHowFarAnAttemptHasComeIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), progressName)
	assert.Equal(t, progress{}, noted(path), "of no file")
	at := time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
	steps := []progress{{Begun: &begun{At: at}}, {Ended: &end{Began: at, Ended: at.Add(time.Minute)}}, {Result: &build.Result{Finished: &record.Finished{Artifact: "sha256:1"}}}}
	for _, step := range steps {
		// A process has died, or the disk was full, in the midst of a line.
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		require.NoError(t, err)
		if _, err := f.WriteString(`{"ended":{"began":"20`); err != nil {
			t.Fatal(err)
		}
		require.NoError(t, f.Close())
		require.NoError(t, note(path, step))
	}
	got := noted(path)
	if got.Begun == nil || !got.Begun.At.Equal(at) || got.Ended == nil || got.Ended.took() != time.Minute || got.Result == nil || got.Result.Finished.Artifact != "sha256:1" {
		t.Errorf("it reads %+v", got)
	}
	assert.Error(t, note(filepath.Join(t.TempDir(), "none", progressName), steps[0]), "it was noted in no directory")
}
