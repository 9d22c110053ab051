package lru_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/pullrequest/lru"
)

func TestWhatWasUsedLeastRecentlyGivesWay(t *testing.T) {
	const most = 10_000
	c := lru.New[int, string](most)
	for i := range 4 {
		c.Put(i, "value", 2000)
	}
	_, ok := c.Get(0)
	require.True(t, ok, "the first is gone")
	c.Put(4, "value", 2000)
	for i, want := range []bool{true, false, true, true, true} {
		_, ok := c.Get(i)
		assert.Equal(t, want, ok, "%d is held", i)
	}
	c.Put(2, "large", most/4) // which is not held
	_, ok = c.Get(2)
	assert.False(t, ok)
	c.Delete(3)
	c.Delete(3)
	c.Put(4, "other", 10)
	v, _ := c.Get(4)
	assert.Equal(t, "other", v)
	assert.LessOrEqual(t, c.Bytes(), 3000)
}

func TestNeverMoreIsHeld(t *testing.T) {
	const most = 1 << 16
	c := lru.New[int, int](most)
	var all sync.WaitGroup
	for seed := range uint64(4) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			for range 5000 {
				switch key := r.IntN(200); r.IntN(3) {
				case 0:
					c.Delete(key)
				case 1:
					c.Get(key)
				default:
					c.Put(key, key, r.IntN(most/2))
				}
				n := c.Bytes()
				assert.True(t, n <= most && n >= 0, "%d bytes are held", n)
			}
		})
	}
	all.Wait()
	for key := range 200 {
		c.Delete(key)
	}
	assert.Equal(t, 0, c.Bytes(), "bytes are held of")
}
