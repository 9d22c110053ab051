// Command deployster deploys: see the README.
package main

import (
	"os"

	"github.com/deployster-go/deployster/internal/cli"
	"github.com/deployster-go/deployster/internal/entrypoint"
)

func main() {
	entrypoint.Dispatch() // first, because containers start with it
	os.Exit(cli.Main(os.Args[1:]))
}
