package build

// block is room for many things that are made one after the other: one piece of memory for
// them all takes less time than one for each. It stays as long as any of them does, so it is
// never large, and of a size that goes by how many there were.
type block[T any] struct {
	free []T
	size int
}

// The most that one piece of memory has room for.
const (
	usesBlock   = 256
	eventsBlock = 64
	textBlock   = 16 << 10
)

// take is room for n things, behind which others begin.
func (b *block[T]) take(n, most int) []T {
	if len(b.free) < n {
		b.size = min(2*b.size+n, max(n, most))
		b.free = make([]T, b.size)
	}
	room := b.free[:0:n]
	b.free = b.free[n:]
	return room
}
