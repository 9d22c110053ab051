// Package reason says why something of a pipeline does not move, or that it may: a code that
// never changes its meaning, what is responsible, a sentence, and what would change it.
package reason
