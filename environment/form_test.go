package environment

import (
	"testing"

	"github.com/deployster-go/deployster/internal/formtest"
)

func TestTheFormOfSnapshotsHasAVersion(t *testing.T) {
	formtest.Want(t, SnapshotVersion, "9e870f92b37cb1f3", snapshot{})
}
