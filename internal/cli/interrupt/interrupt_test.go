package interrupt_test

import (
	"os"
	"testing"

	"github.com/deployster-go/deployster/internal/cli/interrupt"
)

func TestTheFirstSignalStopsAndTheSecondKills(t *testing.T) {
	notices := make(chan string, 2)
	ctx, signals := interrupt.Handle(t.Context(), func(text string) { notices <- text })
	defer signals.Done()
	asking, cancel := signals.Context(ctx)
	defer cancel()
	send := func() {
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Signal(os.Interrupt)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if signals.Interrupted() || asking.Err() != nil {
		t.Error("it was interrupted before the first signal")
	}
	send()
	<-signals.Stop
	<-asking.Done()
	if first := <-notices; !signals.Interrupted() || ctx.Err() != nil || first != "stopping: running actions finish first; interrupt again to kill them" {
		t.Errorf("after the first signal: interrupted %v, %v, %q", signals.Interrupted(), ctx.Err(), first)
	}
	send()
	<-ctx.Done()
	if second := <-notices; second != "killing what runs" {
		t.Errorf("after the second: %q", second)
	}
}

func TestTheEndIsNoSignal(t *testing.T) {
	var notices []string
	ctx, signals := interrupt.Handle(t.Context(), func(text string) { notices = append(notices, text) })
	signals.Done()
	<-ctx.Done() // nothing listens any more
	if signals.Interrupted() || len(notices) > 0 {
		t.Errorf("interrupted without a signal: %q", notices)
	}
}
