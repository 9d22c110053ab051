// Package block has room for many things that are made one after the other: one piece of memory
// for them all takes less time than one for each. It stays as long as any of them does, so it is
// never large.
package block

import "strings"

// Of is room for things of a kind. Its size goes by how many there were. The zero value is
// empty.
type Of[T any] struct {
	free []T
	size int
}

// Take is room for n things, behind which others begin. One piece of memory has room for so many
// at most, unless it is for these alone.
func (b *Of[T]) Take(n, most int) []T {
	if len(b.free) < n {
		b.size = min(2*b.size+n, max(n, most))
		b.free = make([]T, b.size)
	}
	room := b.free[:0:n]
	b.free = b.free[n:]
	return room
}

// Texts is room for short texts. The zero value is empty.
type Texts struct{ room *strings.Builder }

// textsSize is how long the texts of one piece of memory are together, in bytes.
const textsSize = 4 << 10

// Add is a text as a string.
func (t *Texts) Add(text []byte) string {
	if t.room == nil || t.room.Cap()-t.room.Len() < len(text) {
		t.room = &strings.Builder{}
		t.room.Grow(max(textsSize, len(text)))
	}
	from := t.room.Len()
	t.room.Write(text)
	return t.room.String()[from:]
}
