package block_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/block"
)

// What is written into the room for some never comes into that of others.
func TestRoomIsOfOneAlone(t *testing.T) {
	var b block.Of[int]
	var all [][]int
	for n := range 100 {
		room := b.Take(n%7, 16)
		require.Empty(t, room, "the room for %d", n%7)
		require.Equal(t, n%7, cap(room), "the room for")
		for range n%7 + 1 { // one more than there is room for
			room = append(room, n)
		}
		all = append(all, room)
	}
	for n, room := range all {
		for _, is := range room {
			assert.Equal(t, n, is, "in the room of")
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
		assert.Equal(t, string(text(n)), got, "text %d is %.20q", n, got)
	}
}
