//go:build !unix

package usercache

import "io/fs"

// private accepts all: where files have no owner in this sense, the user's
// directories are the user's.
func private(string) error { return nil }

// privateFile accepts all.
func privateFile(fs.FileInfo) bool { return true }
