// Command entrypoint is a program that has nothing but the roles of package
// entrypoint, as the tool's binary has them.
package main

import "github.com/deployster-go/deployster/internal/entrypoint"

func main() { entrypoint.Dispatch() }
