package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
)

func TestTheStorePassesTheSuite(t *testing.T) {
	logtest.Run(t, func(tb testing.TB) logtest.Store {
		path := filepath.Join(tb.TempDir(), "log.db")
		return func() deploylog.Log { return openLog(tb, path) }
	})
}
