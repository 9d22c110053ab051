// Package usercache keeps what the program found out for later runs of the same
// user: nothing is lost with it but time. What stands there decides what runs in the
// name of that user, so it is used only where no other user can write to it.
package usercache

import (
	"os"
	"path/filepath"
)

// location is where the directory of the program is.
func location() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "deployster"), err
}

// Dir is the directory of the program, which is made where it is missing. It fails
// where another user can write to it.
func Dir() (string, error) {
	dir, err := location()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, private(dir)
}
