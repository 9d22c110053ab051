package gc

import (
	"context"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// SometimesBounded is Sometimes with other bounds.
func SometimesBounded(ctx context.Context, log deploylog.Log, dir string, now time.Time, most, mostLeft int, mostTime time.Duration) error {
	return sometimes(ctx, log, dir, "none", now, bounds{DefaultMaxWork, most, mostLeft, mostTime, time.Now})
}

// SometimesTimed is Sometimes with another clock for what it measures and removes.
func SometimesTimed(ctx context.Context, log deploylog.Log, dir string, maxWork int64, now time.Time, mostTime time.Duration, clock func() time.Time) error {
	return sometimes(ctx, log, dir, "none", now, bounds{maxWork, mostSometimes, mostLeft, mostTime, clock})
}
