package pipeline

import (
	"testing"

	"github.com/deployster-go/deployster/internal/formtest"
)

func TestTheFormOfSnapshotsOfPipelinesHasAVersion(t *testing.T) {
	formtest.Want(t, NeededVersion, "79c284c8cd08134d", State{})
}
