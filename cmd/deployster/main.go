// Command deployster deploys: see the README.
package main

import (
	"os"

	"github.com/deployster-go/deployster/internal/cli"
	_ "github.com/deployster-go/deployster/internal/early" // containers start with it
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
