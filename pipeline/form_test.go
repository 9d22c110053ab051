package pipeline

import (
	"testing"

	"github.com/deployster-go/deployster/internal/formtest"
)

func TestTheFormOfSnapshotsOfPipelinesHasAVersion(t *testing.T) {
	formtest.Want(t, NeededVersion, "d2235900b3fc5f32", State{})
}
