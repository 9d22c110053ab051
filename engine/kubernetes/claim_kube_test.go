//go:build kube

package kubernetes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/engine"
)

// A Pod whose claim nobody has made would wait for it; whoever runs it is told soon.
func TestAClaimThatIsNotThereIsAnError(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Restricted)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout/2+time.Minute)
	defer cancel()
	_, err := f.Run(ctx, engine.Spec{Image: f.ref, Args: []string{"read-exit", "7"}, Mounts: []engine.Mount{{Source: Claim + "nobodys/below", Target: "/data"}}}, engine.IO{})
	if err == nil || !strings.Contains(err.Error(), `persistentvolumeclaim "nobodys" not found in namespace `+f.options.Namespace+": make it") || !errors.As(err, new(*engine.SpecError)) {
		t.Errorf("it ended with %v", err)
	}
}
