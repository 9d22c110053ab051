// Command gate is the gate by itself, as the tool's binary has it.
package main

import _ "github.com/deployster-go/deployster/internal/entrypoint"

func main() {}
