package server_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/deployster-go/deployster/control/apply"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/proposal"
)

// A fault of the program must not take the places of runs, nor keep the server from stopping.
func TestARunWhosePreparationPanicsLeavesItsPlace(t *testing.T) {
	url, store, stop := applyingOn(t, logOf(t, 0), nil, func(o *apply.Options) {
		o.Connect = func(context.Context) (*work.Connection, error) { panic("a fault") }
	})
	asked := runBody(t, proposal.Run{Manifests: []string{"a.yaml"}, Carries: map[string]string{"a.yaml": keep(t, store, nothing), "/variables": keep(t, store, noVariables)}})
	for range 17 { // one more than are carried out at once
		if status, _, text := ask(t, "POST", url+"/v1/runs", "operator", asked, "Content-Type", "application/json"); status != http.StatusInternalServerError {
			t.Fatalf("%d %s", status, text)
		}
	}
	stop()
}
