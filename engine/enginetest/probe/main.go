//go:build linux

// Command probe is the engine suite's test program as a static binary for Linux,
// the only file of the suite's image. See package enginetest/internal/probe for
// what it can do.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/deployster-go/deployster/engine/enginetest/internal/probe"
)

func main() {
	directory, err := os.Getwd()
	if err != nil {
		directory = err.Error()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	os.Exit(probe.Run(ctx, probe.Process{
		Args:      os.Args[1:],
		Env:       os.Environ(),
		Dir:       directory,
		User:      fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()),
		Stdin:     os.Stdin,
		Stdout:    os.Stdout,
		Stderr:    os.Stderr,
		ReadFile:  os.ReadFile,
		WriteFile: func(path string, content []byte) error { return os.WriteFile(path, content, 0o600) },
		Die:       die,
		Native:    native,
	}))
}

// die makes the kernel send SIGKILL. A container's first process is safe from
// signals of its own, so it uses up its processor time instead.
func die() int {
	second := syscall.Rlimit{Cur: 1, Max: 1}
	if err := syscall.Setrlimit(syscall.RLIMIT_CPU, &second); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "probe: limit processor time:", err)
		return probe.Failed
	}
	for { //nolint:staticcheck // spinning is the point
	}
}
