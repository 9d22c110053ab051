package jobs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
)

// What is noted of an attempt is read again, whatever was cut short before it.
func TestHowFarAnAttemptHasComeIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), progressName)
	if got := noted(path); got != (progress{}) {
		t.Errorf("of no file: %+v", got)
	}
	at := time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
	steps := []progress{{Begun: &begun{At: at}}, {Ended: &end{Began: at, Ended: at.Add(time.Minute)}}, {Result: &build.Result{Finished: &record.Finished{Artifact: "sha256:1"}}}}
	for _, step := range steps {
		// A process has died, or the disk was full, in the midst of a line.
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(`{"ended":{"began":"20`); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err := note(path, step); err != nil {
			t.Fatal(err)
		}
	}
	got := noted(path)
	if got.Begun == nil || !got.Begun.At.Equal(at) || got.Ended == nil || got.Ended.took() != time.Minute || got.Result == nil || got.Result.Finished.Artifact != "sha256:1" {
		t.Errorf("it reads %+v", got)
	}
	if err := note(filepath.Join(t.TempDir(), "none", progressName), steps[0]); err == nil {
		t.Error("it was noted in no directory")
	}
}
