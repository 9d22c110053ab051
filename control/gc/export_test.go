package gc

import (
	"context"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// SometimesBounded is Sometimes with other bounds.
func SometimesBounded(ctx context.Context, log deploylog.Log, dir string, now time.Time, most, mostLeft int, mostTime time.Duration) error {
	return sometimes(ctx, log, dir, "none", now, bounds{DefaultMaxWork, most, mostLeft, mostTime})
}
