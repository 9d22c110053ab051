//go:build !unix

package shipped

import "io/fs"

// Private accepts all: where files have no owner in this sense, the user's
// directories are the user's.
func Private(string) error { return nil }

// PrivateFile accepts all.
func PrivateFile(fs.FileInfo) bool { return true }
