package engines

import (
	"os"
	"testing"

	"github.com/deployster-go/deployster/internal/entrypoint"
)

func TestMain(m *testing.M) {
	entrypoint.Dispatch()
	os.Exit(m.Run())
}
