// Package lru is a cache that is bounded by the bytes that it holds: what was used least recently
// gives way.
package lru

import (
	"container/list"
	"sync"
)

// perEntry is about what an entry takes besides what it holds.
const perEntry = 256

// Cache holds values by key. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	most int

	mu     sync.Mutex
	bytes  int
	recent *list.List // of *entry[K, V], most recently used first
	byKey  map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
	bytes int
}

// New returns a cache that holds so many bytes at most.
func New[K comparable, V any](most int) *Cache[K, V] {
	return &Cache[K, V]{most: most, recent: list.New(), byKey: map[K]*list.Element{}}
}

// Get returns what is held for a key.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.byKey[key]
	if !ok {
		return value, false
	}
	c.recent.MoveToFront(at)
	return at.Value.(*entry[K, V]).value, true
}

// Put has a value held that takes so many bytes. One that would take a quarter of all or more is
// not, for most others would give way to it.
func (c *Cache[K, V]) Put(key K, value V, bytes int) {
	const part = 4
	c.Delete(key)
	if bytes += perEntry; bytes > c.most/part {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.byKey[key]; ok { // somebody else put it just now
		c.remove(at)
	}
	c.byKey[key] = c.recent.PushFront(&entry[K, V]{key, value, bytes})
	for c.bytes += bytes; c.bytes > c.most; {
		c.remove(c.recent.Back())
	}
}

// Delete has nothing held for a key.
func (c *Cache[K, V]) Delete(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.byKey[key]; ok {
		c.remove(at)
	}
}

func (c *Cache[K, V]) remove(at *list.Element) {
	e := c.recent.Remove(at).(*entry[K, V])
	delete(c.byKey, e.key)
	c.bytes -= e.bytes
}

// Bytes is how many bytes are held.
func (c *Cache[K, V]) Bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}
