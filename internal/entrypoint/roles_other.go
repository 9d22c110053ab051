//go:build !linux

package entrypoint

import "runtime"

func take([]string) int { return refuse("containers need Linux, and this is " + runtime.GOOS) }
