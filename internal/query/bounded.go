package query

import "strings"

// The bounds of a diff in a document that is not to show everything.
const (
	mostLines       = 1000
	mostBytes       = 256 << 10
	mostDifferences = 500
)

// LeftOut is what a bounded document does not show of a list, or of a unified diff.
type LeftOut struct {
	Differences int `json:"differences,omitempty"`
	Entries     int `json:"entries,omitempty"` // of a list
	Lines       int `json:"lines,omitempty"`
	Texts       int `json:"texts,omitempty"` // that begin among these lines
}

// Bounded bounds documents of differences: all is what they are with nothing left out.
type Bounded struct {
	All     bool
	LeftOut map[string]LeftOut // by the field of the document
}

// Text is a unified diff, or its first lines, for a field of a document.
func (b *Bounded) Text(field, changed string) string {
	if b.All {
		return changed
	}
	end, lines := 0, 0
	for lines < mostLines && end < len(changed) {
		line := strings.IndexByte(changed[end:], '\n') + 1
		if line == 0 {
			line = len(changed) - end
		}
		if end+line > mostBytes {
			break
		}
		end, lines = end+line, lines+1
	}
	if end == len(changed) {
		return changed
	}
	left := strings.Split(strings.TrimSuffix(changed[end:], "\n"), "\n")
	out := LeftOut{Lines: len(left)}
	for i, line := range left {
		if i > 0 && strings.HasPrefix(left[i-1], "--- ") && strings.HasPrefix(line, "+++ ") {
			out.Texts++
		}
	}
	b.note(field, out)
	return changed[:end]
}

// First are the first of a list, for a field of a document.
func First[T any](b *Bounded, field string, all []T) []T {
	if b.All || len(all) <= mostDifferences {
		return all
	}
	b.note(field, LeftOut{Differences: len(all) - mostDifferences})
	return all[:mostDifferences]
}

func (b *Bounded) note(field string, out LeftOut) {
	if b.LeftOut == nil {
		b.LeftOut = map[string]LeftOut{}
	}
	out.Entries += b.LeftOut[field].Entries
	b.LeftOut[field] = out
}

// In adds to a document what it does not show, if there is anything.
func (b *Bounded) In(document map[string]any) map[string]any {
	if len(b.LeftOut) > 0 {
		document["left_out"] = b.LeftOut
	}
	return document
}
