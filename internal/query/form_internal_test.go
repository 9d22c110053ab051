package query

import (
	"testing"

	"github.com/deployster-go/deployster/internal/formtest"
)

func TestTheFormOfSnapshotsOfTheOverviewHasAVersion(t *testing.T) {
	formtest.Want(t, SnapshotVersion, "8b7acba3819f1b11", overview{})
}
