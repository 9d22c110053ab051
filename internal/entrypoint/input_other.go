//go:build !linux

package entrypoint

import (
	"errors"
	"time"
)

// Whole fails: containers are Linux's.
func Whole(int, time.Duration) error { return errors.New("gate: it needs Linux") }
