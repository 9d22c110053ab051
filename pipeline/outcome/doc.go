// Package outcome is what became of revisions in the stages of a pipeline, as far as it
// keeps others out of these: failures, and the fixes that went by them.
package outcome
