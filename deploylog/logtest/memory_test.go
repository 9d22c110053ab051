package logtest_test

import (
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
)

func TestMemoryPassesTheSuite(t *testing.T) {
	logtest.Run(t, func(tb testing.TB) logtest.Store {
		m := logtest.NewMemory()
		return func() deploylog.Log {
			l := m.Open()
			tb.Cleanup(func() { _ = l.Close() })
			return l
		}
	})
}
