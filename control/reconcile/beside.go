package reconcile

import (
	"context"
	"sync"

	"github.com/deployster-go/deployster/internal/crash"
)

// Beside runs what waits for a controller, and that beside it. When main has ended, drained is
// closed and the controller waited for; one that fails ends main with its error as the cause. doing
// says what the controller does.
func Beside(ctx context.Context, doing string, drained chan<- struct{}, controller, main func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var controlling sync.WaitGroup
	controlling.Go(func() {
		if err := crash.Do(doing, func() error { return controller(ctx) }); err != nil {
			cancel(err) // or main would wait for it without end
		}
	})
	defer controlling.Wait()
	defer close(drained)
	return main(ctx)
}
