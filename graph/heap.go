package graph

import (
	"cmp"
	"container/heap"
)

// indexHeap hands out nodes by their place in the order of adding.
type indexHeap[K cmp.Ordered] struct {
	index map[K]int
	items heapItems[K]
}

type heapItem[K cmp.Ordered] struct {
	key   K
	index int
}

func (h *indexHeap[K]) len() int { return len(h.items) }

func (h *indexHeap[K]) push(keys ...K) {
	for _, k := range keys {
		heap.Push(&h.items, heapItem[K]{k, h.index[k]})
	}
}

func (h *indexHeap[K]) pop() K { return heap.Pop(&h.items).(heapItem[K]).key }

type heapItems[K cmp.Ordered] []heapItem[K]

func (s heapItems[K]) Len() int           { return len(s) }
func (s heapItems[K]) Less(i, j int) bool { return s[i].index < s[j].index }
func (s heapItems[K]) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *heapItems[K]) Push(x any)        { *s = append(*s, x.(heapItem[K])) }
func (s *heapItems[K]) Pop() any {
	old := *s
	last := old[len(old)-1]
	*s = old[:len(old)-1]
	return last
}
