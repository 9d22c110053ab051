package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/control/reconcile"
)

func TestWhatWaitsForAControllerRunsBesideIt(t *testing.T) {
	over, controlled := make(chan struct{}), false
	ended := errors.New("main has ended")
	err := reconcile.Beside(t.Context(), "controlling", over, func(ctx context.Context) error {
		<-over // it is drained when main has ended, and not before
		controlled = ctx.Err() == nil
		return nil
	}, func(ctx context.Context) error { return errors.Join(ended, ctx.Err()) })
	if !errors.Is(err, ended) || errors.Is(err, context.Canceled) || !controlled {
		t.Errorf("it ends with %v, and was waited for: %t", err, controlled)
	}
}

func TestAControllerThatFailsEndsWhatWaitsForIt(t *testing.T) {
	for name, controller := range map[string]func(context.Context) error{
		"it fails": func(context.Context) error { return errors.New("no log") },
		"it has a fault": func(context.Context) error {
			var none []int
			none[0] = 1
			return nil
		},
	} {
		err := reconcile.Beside(t.Context(), "controlling all", make(chan struct{}), controller, func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if err == nil || !strings.Contains(err.Error(), map[string]string{"it fails": "no log", "it has a fault": "controlling all"}[name]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
