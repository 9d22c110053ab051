package environment

import (
	"testing"

	"github.com/deployster-go/deployster/internal/formtest"
)

func TestTheFormOfSnapshotsHasAVersion(t *testing.T) {
	formtest.Want(t, SnapshotVersion, "682f53f29d0b13b2", snapshot{})
}
