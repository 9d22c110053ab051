package app_test

import (
	"path/filepath"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
)

func TestTheLogIsClosedThoughWhatIsDoneWithItPanics(t *testing.T) {
	a := app.New()
	a.Global.Log = filepath.Join(t.TempDir(), "log.db")
	var log deploylog.Log
	func() {
		defer func() { _ = recover() }()
		_ = a.WithNewLog(t.Context(), func(opened deploylog.Log) error {
			log = opened
			panic("a mistake")
		})
	}()
	for _, err := range log.Read(t.Context(), deploylog.Filter{}) {
		if err != nil {
			return
		}
	}
	t.Error("it is open")
}
