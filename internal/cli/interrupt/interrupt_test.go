package interrupt_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/cli/interrupt"
)

func TestTheFirstSignalStopsAndTheSecondKills(t *testing.T) {
	notices := make(chan string, 2)
	ctx, signals := interrupt.Handle(t.Context(), func(text string) { notices <- text })
	defer signals.Done()
	asking, cancel := signals.Context(ctx)
	defer cancel()
	send := func() { signal(t) }
	assert.True(t, !signals.Interrupted() && asking.Err() == nil, "it was interrupted before the first signal")
	send()
	<-signals.Stop
	<-asking.Done()
	if first := <-notices; !signals.Interrupted() || ctx.Err() != nil || first != "stopping: running actions finish first; interrupt again to kill them" {
		t.Errorf("after the first signal: interrupted %v, %v, %q", signals.Interrupted(), ctx.Err(), first)
	}
	send()
	<-ctx.Done()
	assert.Equal(t, "killing what runs", <-notices, "after the second")
}

func TestACommandSaysWhatItsSignalsDo(t *testing.T) {
	notices := make(chan string, 2)
	ctx, signals := interrupt.Announce(t.Context(), [2]string{"finishing", "leaving"}, func(text string) { notices <- text })
	defer signals.Done()
	for _, want := range []string{"finishing", "leaving"} {
		signal(t)
		if got := <-notices; got != want || (ctx.Err() != nil) != (want == "leaving") {
			t.Errorf("it says %q and not %q, and has ended: %v", got, want, ctx.Err())
		}
	}
}

func signal(t *testing.T) {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(os.Interrupt)
	}
	require.NoError(t, err)
}

func TestWhatDoesNotEndAfterTheSecondSignalEndsTheProcess(t *testing.T) {
	aborted := make(chan struct{})
	defer interrupt.Aborts(func() { close(aborted) })()
	notices := make(chan string, 2)
	ctx, signals := interrupt.Handle(t.Context(), func(text string) { notices <- text })
	signal(t)
	<-notices
	before := time.Now()
	signal(t)
	<-ctx.Done()
	select {
	case <-aborted:
	case <-time.After(time.Minute):
		t.Error("the process is still there")
	}
	assert.GreaterOrEqual(t, time.Since(before), time.Second, "what is being killed had only")
	signals.Done()
}

func TestTheEndIsNoSignal(t *testing.T) {
	var notices []string
	ctx, signals := interrupt.Handle(t.Context(), func(text string) { notices = append(notices, text) })
	signals.Done()
	<-ctx.Done() // nothing listens any more
	assert.True(t, !signals.Interrupted() && len(notices) == 0, "interrupted without a signal: %q", notices)
}
