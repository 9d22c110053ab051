package authoring

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/protocol"
)

func TestSecretsOfStatesAreNotShown(t *testing.T) {
	v := newVMType()
	v.Actions["delete"] = func(_ context.Context, r protocol.Request[vm]) error {
		r.Sayf("%v %v", r.StaleState["password"], r.Kept["id"])
		return fmt.Errorf("cannot delete")
	}
	v.StateSchema = json.RawMessage(`{"properties": {"password": {"writeOnly": true}}}`)
	for _, r := range checked(t, v.Run, aVM()) {
		assert.NotContains(t, r.Detail, "i-0001", "%s: %s", r.Name, r.Detail)
		if r.Name == "removal ends VALID" && !strings.Contains(r.Detail, `••• •••\nerror: cannot delete`) {
			t.Errorf("%s: %s", r.Outcome, r.Detail)
		}
	}
}
