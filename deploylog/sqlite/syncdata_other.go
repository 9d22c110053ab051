//go:build !linux

package sqlite

import "os"

// syncData makes what was written into a file durable.
func syncData(f *os.File) error { return f.Sync() }
