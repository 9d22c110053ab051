package runner

import (
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/invoke"
)

// Change is one difference between what is and what is configured.
type Change = diff.Change

// ChangeOp says how a value differs.
type ChangeOp = diff.Op

// The operations of a diff.
const (
	Add    = diff.Add
	Modify = diff.Modify
	Remove = diff.Remove
)

// DiffText writes a diff for people, one line a change.
func DiffText(changes []Change) string { return diff.Text(changes) }

// DiffLines writes a diff for people, in lines of which there is a bounded number.
func DiffLines(changes []Change) []string { return diff.Lines(changes) }

func difference(stale, config map[string]any, secret invoke.Paths) []Change {
	return diff.Of(stale, config, secret)
}

func same(a, b any) bool      { return diff.Same(a, b) }
func identical(a, b any) bool { return diff.Identical(a, b) }
