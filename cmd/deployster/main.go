// Command deployster deploys: see the README.
package main

import (
	"os"

	"github.com/deployster-go/deployster/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
