package pipeline

import (
	"testing"

	"github.com/deployster-go/deployster/internal/formtest"
)

func TestTheFormOfSnapshotsOfPipelinesHasAVersion(t *testing.T) {
	formtest.Want(t, NeededVersion, "4b1126de4598aa29", State{})
}
