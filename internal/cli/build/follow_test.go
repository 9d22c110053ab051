package build_test

import (
	"context"
	"testing"
)

// Whoever ends to follow a log made no error.
func TestWhoeverFollowsALogEndsItWithoutAnError(t *testing.T) {
	s := newSite(t, 1)
	s.begin()
	s.dispatch()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, beside, code := s.within(ctx, "logs", "base", "glibc", "--follow"); code != 130 || out != "" || beside != "" {
		t.Errorf("it exits with %d and says %q %q", code, out, beside)
	}
}
