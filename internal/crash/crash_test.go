package crash_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/crash"
)

func TestWhatPanicsFailsWhatItIsAPartOf(t *testing.T) {
	ctx, fail := context.WithCancelCause(t.Context())
	func() {
		defer crash.Cancel(fail, "testing")
		panic("boom")
	}()
	var caught *crash.Error
	require.ErrorAs(t, context.Cause(ctx), &caught)
	assert.Equal(t, "boom testing", caught.Message+" "+caught.Doing)
	ctx, fail = context.WithCancelCause(t.Context())
	defer fail(nil)
	func() { defer crash.Cancel(fail, "testing") }()
	assert.NoError(t, context.Cause(ctx), "nothing panicked")
}
