package build_test

import (
	"os"
	"testing"
	"time"
)

// TestMain has times shown as those of one zone, wherever the tests run. It is set before any test
// begins: timers read it all the time.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}
