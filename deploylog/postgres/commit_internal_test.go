package postgres

import (
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
)

// However much one caller brings, no statement has more than a slow link takes in time.
func TestRowsAreInsertedInParts(t *testing.T) {
	data := make([]byte, partBytes)
	target := deploylog.Target(strings.Repeat("x", 500))
	rows := make([]row, 7, 7+2*partBytes/500)
	for i, size := range []int{1, partBytes / 2, partBytes / 2, 5, partBytes, 0, 1} {
		rows[i] = row{event: &deploylog.Event{Seq: int64(i), Data: data[:max(0, size-rowBytes)]}}
	}
	for len(rows) < cap(rows) { // without data
		rows = append(rows, row{event: &deploylog.Event{Seq: int64(len(rows)), Target: target}})
	}
	var sizes []int
	seen := int64(0)
	for part := range parts(rows) {
		sizes = append(sizes, len(part))
		bytes := 0
		for _, r := range part {
			if r.event.Seq != seen {
				t.Errorf("row %d comes before %d", r.event.Seq, seen)
			}
			seen++
			bytes += r.bytes()
		}
		if bytes > partBytes && len(part) > 1 {
			t.Errorf("a part of %d rows has %d bytes", len(part), bytes)
		}
	}
	if want := []int{2, 2, 1}; len(sizes) < 6 || !slices.Equal(sizes[:3], want) {
		t.Errorf("the parts have %v rows, want %v first", sizes, want)
	}
	if seen != int64(len(rows)) {
		t.Errorf("of %d rows %d are in parts", len(rows), seen)
	}
}
