package build

import (
	"testing"

	"github.com/deployster-go/deployster/internal/formtest"
)

func TestTheFormOfSnapshotsHasAVersion(t *testing.T) {
	formtest.Want(t, SnapshotVersion, "56e6d3c789f688ba", State{})
}
