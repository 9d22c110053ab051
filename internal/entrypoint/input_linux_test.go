package entrypoint_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/deployster-go/deployster/internal/entrypoint"
)

// A signal, such as that of a terminal whose size changes, is no sign of life.
func TestTheGateGivesUpThoughSignalsCome(t *testing.T) {
	gated, stdin, stdout, stderr := heldBy(t, entrypoint.WholeWord, "500ms", "mark", self(t), "program")
	defer func() { _ = stdin.Close() }()
	if err := entrypoint.Alive(stdin); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = gated.Wait()
	}()
	signals, tooLong := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer signals.Stop()
	for over := false; !over; {
		select {
		case <-ended:
			over = true
		case <-signals.C:
			_ = gated.Process.Signal(syscall.SIGWINCH) // it may have ended
		case <-tooLong:
			t.Error("it still waits")
			_ = gated.Process.Kill()
			tooLong = nil
		}
	}
	if gated.ProcessState.ExitCode() != entrypoint.Failed || stdout.Len() > 0 || !strings.Contains(stderr.String(), "nothing came") {
		t.Errorf("%s, stdout %q, stderr %q", gated.ProcessState, stdout, stderr)
	}
}
