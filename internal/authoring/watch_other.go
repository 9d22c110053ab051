//go:build !linux

package authoring

// watch sees nothing where the kernel is another.
type watch struct{}

func watchDirs([]string) *watch { return nil }

func (w *watch) stop() renames { return nil }
