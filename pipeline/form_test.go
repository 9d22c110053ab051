package pipeline

import (
	"testing"

	"github.com/deployster-go/deployster/internal/formtest"
)

func TestTheFormOfSnapshotsOfPipelinesHasAVersion(t *testing.T) {
	formtest.Want(t, NeededVersion, "18835674f6305e6e", State{})
}
