package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
)

func openLog(tb testing.TB, path string) *Log {
	tb.Helper()
	l, err := Open(tb.Context(), path, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := l.Close(); err != nil {
			tb.Error(err)
		}
	})
	return l
}

// TestAShortLook leaves no trace, whatever is beside the log.
func TestAShortLook(t *testing.T) {
	path := written(t)
	for _, suffix := range []string{"", anchorSuffix, checkSuffix} { // one more is missing each time
		if suffix != "" {
			if err := os.Remove(path + suffix); err != nil {
				t.Fatal(err)
			}
		}
		files := func() (names []string) {
			entries, err := os.ReadDir(filepath.Dir(path))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				names = append(names, e.Name())
			}
			return names
		}
		before := files()
		l, err := Open(t.Context(), path, Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range l.Read(t.Context(), deploylog.Filter{Last: 10}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if v, err := l.Verify(t.Context()); err != nil || v.Events != 300 || n != 10 {
			t.Errorf("%+v, %v; read %d", v, err, n)
		}
		_, err = l.Append(t.Context(), sample(1000))
		wantError(t, err, errReadOnly, path)
		if err := errors.Join(l.Close(), l.Close()); err != nil {
			t.Error(err)
		}
		if after := files(); !slices.Equal(after, before) {
			t.Errorf("there were %q, and now %q", before, after)
		}
	}
	none := filepath.Join(t.TempDir(), "sub", "log.db")
	_, err := Open(t.Context(), none, Options{ReadOnly: true})
	wantError(t, err, fs.ErrNotExist, none)
	if _, err := os.Stat(filepath.Dir(none)); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
