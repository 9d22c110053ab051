package waittest_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/waittest"
)

// failing records the failure of a test instead of failing it.
type failing struct {
	testing.TB
	failed chan struct{}
}

func (f failing) Helper() {}

func (f failing) Fatalf(string, ...any) {
	close(f.failed)
	runtime.Goexit()
}

func TestReceiveReturnsWhatIsSent(t *testing.T) {
	c := make(chan int, 1)
	c <- 7
	assert.Equal(t, 7, waittest.Receive(t, c, "a number"))
}

func TestUntilPollsUntilTheConditionHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		waittest.Until(t, func() bool { calls++; return calls == 3 }, "the third call")
		assert.Equal(t, 3, calls)
	})
}

func TestWaitingFailsAtTheLimit(t *testing.T) {
	for name, wait := range map[string]func(testing.TB){
		"receive": func(t testing.TB) { waittest.Receive(t, make(chan int), "a number") },
		"until":   func(t testing.TB) { waittest.Until(t, func() bool { return false }, "the impossible") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := failing{t, make(chan struct{})}
				began := time.Now()
				go wait(f)
				<-f.failed
				assert.Equal(t, waittest.Limit, time.Since(began))
			})
		})
	}
}
