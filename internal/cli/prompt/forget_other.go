//go:build !linux

package prompt

import "os"

// forget drops what was typed at a terminal and not yet read: here, nothing.
func forget(*os.File) {}
