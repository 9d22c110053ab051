// Package reason says why something of an environment is not in the desired state: a code that
// never changes its meaning, a sentence, and what would change it.
package reason
