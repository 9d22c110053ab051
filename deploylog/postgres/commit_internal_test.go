package postgres

import (
	"slices"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
)

// However much one caller brings, no statement has more than the protocol takes.
func TestRowsAreInsertedInParts(t *testing.T) {
	data := make([]byte, partBytes/2)
	rows := make([]row, 7)
	for i, size := range []int{1, partBytes / 2, partBytes / 2, 5, partBytes, 0, 1} {
		if size > len(data) {
			data = make([]byte, size)
		}
		rows[i] = row{event: &deploylog.Event{Seq: int64(i), Data: data[:size]}}
	}
	var sizes []int
	seen := int64(0)
	for part := range parts(rows) {
		sizes = append(sizes, len(part))
		for _, r := range part {
			if r.event.Seq != seen {
				t.Errorf("row %d comes before %d", r.event.Seq, seen)
			}
			seen++
		}
	}
	if want := []int{2, 2, 2, 1}; !slices.Equal(sizes, want) {
		t.Errorf("the parts have %v rows, want %v", sizes, want)
	}
}
