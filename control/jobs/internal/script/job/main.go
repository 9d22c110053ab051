// Command job is the script as a program of its own.
package main

import (
	"context"
	"os"
	"time"

	"github.com/deployster-go/deployster/control/jobs/internal/script"
	"github.com/deployster-go/deployster/internal/entrypoint"
)

func main() {
	entrypoint.Dispatch()
	dir, _ := os.Getwd()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	code := script.Run(ctx, script.Process{
		Lines: os.Args[1:], Env: os.Environ(), Dir: dir, Stdout: os.Stdout, Stderr: os.Stderr,
		At: func(path string) (string, error) { return path, nil },
	})
	cancel()
	os.Exit(code)
}
