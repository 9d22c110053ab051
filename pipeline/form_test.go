package pipeline

import (
	"testing"

	"github.com/deployster-go/deployster/internal/formtest"
)

func TestTheFormOfSnapshotsOfPipelinesHasAVersion(t *testing.T) {
	formtest.Want(t, NeededVersion, "0629ce9209fcdb70", State{})
}
