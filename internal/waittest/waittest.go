// Package waittest lets tests wait for something that happens outside their control: another
// process, a container, a server. The only time limit is Limit, which is long enough for the
// slowest machine. A test that reaches it hangs; it does not run slowly.
package waittest

import (
	"context"
	"testing"
	"time"
)

// Limit is how long a test waits before it counts as hanging. It is below the 10 minutes after which
// go test ends a package, so the test still says what it waited for.
const Limit = 8 * time.Minute

// Context returns the context of the test, canceled after Limit.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), Limit, context.DeadlineExceeded)
	t.Cleanup(cancel)
	return ctx
}

// Receive returns the next value of c, or the zero value if c is closed. It fails the test
// after Limit; what names the value in that failure.
func Receive[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	limit := time.NewTimer(Limit)
	defer limit.Stop()
	select {
	case v := <-c:
		return v
	case <-limit.C:
		t.Fatalf("hangs: waited %s for %s", Limit, what)
		panic("unreachable")
	}
}

// Until polls until holds returns true. Use it only for what sends no signal, such as a file that
// another process creates. It fails the test after Limit; what names the condition in that failure.
func Until(t testing.TB, holds func() bool, what string) {
	t.Helper()
	limit, poll := time.NewTimer(Limit), time.NewTicker(5*time.Millisecond)
	defer limit.Stop()
	defer poll.Stop()
	for !holds() {
		select {
		case <-poll.C:
		case <-limit.C:
			t.Fatalf("hangs: waited %s until %s", Limit, what)
		}
	}
}
