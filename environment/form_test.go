package environment

import (
	"testing"

	"github.com/deployster-go/deployster/internal/formtest"
)

func TestTheFormOfSnapshotsHasAVersion(t *testing.T) {
	formtest.Want(t, SnapshotVersion, "0102bbb4a4e3b834", snapshot{})
}
