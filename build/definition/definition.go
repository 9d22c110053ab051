// Package definition is the graph of packages that a build group is made from, as people
// write it (packages.yaml): what each package needs to be built and to run, and the
// artifact of it that is released (seed "Implementation of build manifest based builds").
package definition

// Definition is a graph of packages. Their dependencies may form cycles: gcc builds make,
// and make builds gcc.
type Definition struct {
	Group    string
	Converge int       // how often packages that need each other are built
	Packages []Package // in the order of the file
}

// DefaultConverge builds what is in a cycle with what was released, and once more with
// what that made.
const DefaultConverge = 2

// Package is one package.
type Package struct {
	Name        string
	Version     string   // "" is none
	Released    string   // its artifact that exists already; "" is none
	Build       []string // packages that its build needs
	Run         []string // packages that it needs whenever it is used
	Unbuildable string   // why it cannot be built; "" is that it can
}
