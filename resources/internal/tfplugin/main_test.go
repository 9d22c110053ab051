package tfplugin

import (
	"os"
	"testing"

	"github.com/deployster-go/deployster/resources/internal/tftest"
)

func TestMain(m *testing.M) {
	if tftest.Started() {
		tftest.Main()
	}
	os.Exit(m.Run())
}
