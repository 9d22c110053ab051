//go:build !linux

package locked

import "errors"

// exchange has two directories take each other's place, where a system can.
func exchange(string, string) error { return errors.ErrUnsupported }
