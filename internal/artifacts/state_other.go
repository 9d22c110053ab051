//go:build !linux

package artifacts

import (
	"io/fs"
	"time"
)

// state would be what the kernel knows of a file.
type state struct {
	device, inode uint64
	change        time.Duration
}

func stateOf(fs.FileInfo) state { return state{} }

// startOfMachine is not known, so that no fingerprint is trusted.
func startOfMachine() string { return "" }
