// Command gate is the gate by itself, as the tool's binary has it.
package main

import (
	"os"

	"github.com/deployster-go/deployster/internal/gate"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == gate.Word {
		os.Exit(gate.Main(os.Args[2:]))
	}
}
