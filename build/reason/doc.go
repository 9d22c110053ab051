// Package reason says why a build group or a job of one does not move: a code that never
// changes its meaning, a sentence, and what would change it.
package reason
