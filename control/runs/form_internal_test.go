package runs

import (
	"testing"

	"github.com/deployster-go/deployster/internal/formtest"
)

func TestTheFormOfTheIndexHasAVersion(t *testing.T) {
	formtest.Want(t, indexVersion, "247e420fd822b0f9", indexed{}, pageText{}, thingText{})
}
