package crash_test

import (
	"context"
	"errors"
	"testing"

	"github.com/deployster-go/deployster/internal/crash"
)

func TestWhatPanicsFailsWhatItIsAPartOf(t *testing.T) {
	ctx, fail := context.WithCancelCause(t.Context())
	func() {
		defer crash.Cancel(fail, "testing")
		panic("boom")
	}()
	var caught *crash.Error
	if !errors.As(context.Cause(ctx), &caught) || caught.Message != "boom" || caught.Doing != "testing" {
		t.Errorf("it failed with %v", context.Cause(ctx))
	}
	ctx, fail = context.WithCancelCause(t.Context())
	defer fail(nil)
	func() { defer crash.Cancel(fail, "testing") }()
	if ctx.Err() != nil {
		t.Errorf("nothing panicked, and it failed with %v", context.Cause(ctx))
	}
}
