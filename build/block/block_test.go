package block_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/deployster-go/deployster/build/block"
)

// What is written into the room for some never comes into that of others.
func TestRoomIsOfOneAlone(t *testing.T) {
	var b block.Of[int]
	var all [][]int
	for n := range 100 {
		room := b.Take(n%7, 16)
		if len(room) != 0 || cap(room) != n%7 {
			t.Fatalf("the room for %d is %d of %d", n%7, len(room), cap(room))
		}
		for range n%7 + 1 { // one more than there is room for
			room = append(room, n)
		}
		all = append(all, room)
	}
	for n, room := range all {
		for _, is := range room {
			if is != n {
				t.Errorf("in the room of %d is %d", n, is)
			}
		}
	}
}

func TestTextsStayAsTheyWereAdded(t *testing.T) {
	var texts block.Texts
	var all []string
	text := func(n int) []byte {
		return append(fmt.Appendf(nil, "text %d ", n), bytes.Repeat([]byte{'x'}, n*n%5000)...)
	}
	for n := range 300 {
		room := text(n)
		all = append(all, texts.Add(room))
		clear(room) // which is not that of the text
	}
	for n, got := range all {
		if want := string(text(n)); got != want {
			t.Errorf("text %d is %.20q, not %.20q", n, got, want)
		}
	}
}
