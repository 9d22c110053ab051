// Package early is what this program does before it is the tool: what containers
// start it for.
//
// A container starts this program twice, as its launcher and as its program, and
// each time the packages of all of the program would be initialized first, which
// takes several times as long as what the container needs of it: schemas, patterns
// and tables that only the tool uses. Go initializes a package once those are that it
// imports, and of the packages that it could take next the first by its path. So the
// init function of this package, which needs little and lies early, runs before most
// of them, and does not return where the process is a container's.
//
// Whoever wants this imports the package for its effect alone: the program does, and
// it is the only init function that there is. A type belongs here if its package needs
// no libraries; the others are run by the command "type run", like this one.
package early

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/deployster-go/deployster/internal/entrypoint"
	"github.com/deployster-go/deployster/resources/file"
)

func init() {
	entrypoint.Dispatch()
	if args := os.Args[1:]; len(args) >= 3 && args[0] == "type" && args[1] == "run" && args[2] == "file" {
		runtime.GOMAXPROCS(1) // what it does is short: threads that look for more of it cost more than they do
		code := make(chan int)
		// While packages are initialized this goroutine is bound to its thread, to which
		// all that it does would be handed over, and back.
		go func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			code <- file.Type().Run(ctx, args[3:], os.Stdin, os.Stdout, os.Stderr)
		}()
		os.Exit(<-code)
	}
}
