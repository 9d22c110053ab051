package build

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/deployster-go/deployster/control/jobs"
)

// Of a log whose middle was left out after much of it was shown, the end is shown as well.
func TestTheEndOfALongLogIsShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	half := bytes.Repeat([]byte("x"), jobs.MaxLog/2)
	look := func(l *jobLog, content ...[]byte) {
		t.Helper()
		if err := os.WriteFile(path, bytes.Join(content, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := l.shortened(f); err != nil {
			t.Fatal(err)
		}
	}
	l := &jobLog{shown: jobs.MaxLog}
	look(l, half, half)
	if l.shown != jobs.MaxLog {
		t.Errorf("of a log that is whole it goes back to %d", l.shown)
	}
	for range 2 {
		look(l, half, []byte("\n[7 bytes are left out here]\n"), half)
		if l.shown != jobs.MaxLog/2 {
			t.Errorf("it goes on at %d, not where something is left out", l.shown)
		}
	}
	l.shown = jobs.MaxLog
	look(l, half, []byte("\n[7 bytes are left out here]\n"), half)
	if l.shown != jobs.MaxLog {
		t.Errorf("it goes back again, to %d", l.shown)
	}
}
