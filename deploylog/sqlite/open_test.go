package sqlite

import "testing"

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
