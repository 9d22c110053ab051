// Command provider is the provider of tests as a program of its own, for images of types. Its
// things are in the plug that is mounted at /world, and have identities.
package main

import (
	"fmt"
	"os"

	"github.com/deployster-go/deployster/resources/internal/tftest"
)

func main() {
	if !tftest.Started() {
		fmt.Fprintln(os.Stderr, "this is a provider of Terraform, for tests: deployster type terraform makes types of it")
		os.Exit(1)
	}
	for name, value := range map[string]string{tftest.World: "/world", tftest.Identity: "1"} {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	tftest.Main()
}
