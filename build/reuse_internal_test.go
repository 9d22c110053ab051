package build

import (
	"fmt"
	"testing"

	"github.com/deployster-go/deployster/build/record"
)

// Hashes that have in common what the map knows them by are told apart.
func TestArtifactsAreFoundByAllOfTheirHash(t *testing.T) {
	hash := func(n int) record.Hash { return record.HashOf(fmt.Sprintf("sha256:%016x%048x", n%2, n)) }
	all := artifacts{at: map[uint64]int32{}}
	for _, round := range []int64{1, 2} {
		for n := range 10 {
			all.set(found{inputs: hash(n), seq: round*100 + int64(n)})
		}
		for n := range 10 {
			if f := all.of(hash(n)); f == nil || f.seq != round*100+int64(n) {
				t.Errorf("in round %d, what was built of %d is %+v", round, n, f)
			}
		}
	}
	if f := all.of(hash(10)); f != nil || len(all.all) != 10 || len(all.at) != 2 {
		t.Errorf("there are %d, known by %d, and %+v", len(all.all), len(all.at), f)
	}
}

// What one is given stays what it is, whatever others are given.
func TestBlocksDoNotOverlap(t *testing.T) {
	var b block[int]
	var all [][]int
	for n := range 200 {
		room := b.take(n%7, 16)
		if len(room) != 0 || cap(room) != n%7 {
			t.Fatalf("there is room for %d behind %d, want %d", cap(room), len(room), n%7)
		}
		for range 10 { // also more than there is room for
			room = append(room, n)
		}
		all = append(all, room)
	}
	for n, of := range all {
		for _, got := range of {
			if got != n {
				t.Fatalf("%d of %d is overwritten", got, n)
			}
		}
	}
}
