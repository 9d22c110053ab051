//go:build !linux

package sqlite

import "errors"

// renameNew is for the systems that cannot rename without replacing.
func renameNew(string, string) error { return errors.ErrUnsupported }
