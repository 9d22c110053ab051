// Package ringtest says how much of the tests runs: the ring of "make test", which every change
// waits for, or that of "make test-all", which takes hours and runs before a release.
package ringtest

import "os"

// Variable is the environment variable that "make test-all" sets to "all".
const Variable = "DEPLOYSTER_TEST"

// All reports whether the long tests run too.
func All() bool { return os.Getenv(Variable) == "all" }

// Cases returns how many cases a test draws: few in "make test", many in "make test-all".
func Cases(few, many int) int {
	if All() {
		return many
	}
	return few
}
