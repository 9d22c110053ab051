package entrypoint_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/deployster-go/deployster/internal/entrypoint"
)

// A signal, such as that of a terminal whose size changes, is no sign of life.
func TestTheShimGivesUpThoughSignalsCome(t *testing.T) {
	shim, stdin, stdout, stderr := awaitWhole(t, 500*time.Millisecond, self(t), "program")
	defer func() { _ = stdin.Close() }()
	_ = entrypoint.KeepAlive(stdin) // it may have given up by now
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = shim.Wait()
	}()
	signals, tooLong := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer signals.Stop()
	for over := false; !over; {
		select {
		case <-ended:
			over = true
		case <-signals.C:
			_ = shim.Process.Signal(syscall.SIGWINCH) // it may have ended
		case <-tooLong:
			t.Error("it still waits")
			_ = shim.Process.Kill()
			tooLong = nil
		}
	}
	if shim.ProcessState.ExitCode() != entrypoint.Failed || stdout.Len() > 0 || !strings.Contains(stderr.String(), "no input for") {
		t.Errorf("%s, stdout %q, stderr %q", shim.ProcessState, stdout, stderr)
	}
}
