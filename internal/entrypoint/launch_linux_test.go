package entrypoint

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOnlyWhatAKernelDoesNotKnowNeedsALaterOne(t *testing.T) {
	for err, want := range map[error]string{
		unix.ENOSYS:                      "5.11",
		unix.EINVAL:                      "5.11",
		fmt.Errorf("x: %w", unix.EINVAL): "5.11",
		unix.EPERM:                       "",
	} {
		var failure *Failure
		if !errors.As(unsupported("5.11", "do it", err), &failure) || failure.Linux != want || failure.Error() != "do it: "+err.Error() {
			t.Errorf("%v: %+v, want Linux %q", err, failure, want)
		}
	}
}
