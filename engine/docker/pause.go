package docker

import (
	"context"
	"time"
)

// pauses are the times between attempts, each twice as long as the one before.
type pauses struct {
	next, longest time.Duration
	jitter        func() float64 // a random part of a pause, from 0 to 1
}

// length returns the length of the next pause: half of it to three halves.
func (p *pauses) length() time.Duration {
	length := p.next/2 + time.Duration(p.jitter()*float64(p.next))
	p.next = min(2*p.next, p.longest)
	return length
}

// pause waits, and reports whether it came to its end. It ends early with the context, and when over is closed.
func pause(ctx context.Context, over <-chan struct{}, length time.Duration) bool {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-over:
		return false
	case <-timer.C:
		return true
	}
}
