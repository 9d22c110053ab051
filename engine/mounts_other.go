//go:build !linux

package engine

// mounts are not seen by containers elsewhere than on Linux.
type mounts struct{}

func (*mounts) info() string { return "" }

func (*mounts) close() {}
