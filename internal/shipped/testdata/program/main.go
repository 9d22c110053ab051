// Command program stands in for Deployster in the tests: of its commands it
// knows the two that an image of a shipped type needs.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/deployster-go/deployster/internal/shipped"
)

func main() {
	args := os.Args[1:]
	switch {
	case len(args) == 2 && args[1] == "binary":
		if err := shipped.WriteBinary(os.Stdout); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case len(args) >= 3 && args[1] == "run":
		t, ok := shipped.Lookup(args[2])
		if !ok {
			os.Exit(3)
		}
		os.Exit(t.Run(context.Background(), args[3:], os.Stdin, os.Stdout, os.Stderr))
	default:
		os.Exit(3)
	}
}
