package slots_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/pullrequest/slots"
)

func take(t *testing.T, s *slots.Slots, key string) func() {
	back := must.Get(s.Take(t.Context(), key))(t)
	return back
}

func TestEachKeyHasItsOwn(t *testing.T) {
	s := slots.New(2)
	first, second := take(t, s, "slow"), take(t, s, "slow")
	full, end := context.WithCancel(t.Context())
	end()
	_, err := s.Take(full, "slow")
	assert.ErrorIs(t, err, context.Canceled, "a third one")
	other := take(t, s, "fast")
	other()
	first()
	first() // once is enough
	third := take(t, s, "slow")
	_, err = s.Take(full, "slow")
	assert.Error(t, err, "giving back twice gave two back")
	second()
	third()
	assert.Equal(t, 0, s.Keys(), "keys are kept")
}

func TestWhoCameFirstIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slots.New(1)
		back := take(t, s, "a")
		var order []int
		for i := range 50 {
			go func() {
				back, err := s.Take(t.Context(), "a")
				if err == nil {
					order = append(order, i)
					back()
				}
			}()
			synctest.Wait()
		}
		back()
		synctest.Wait()
		assert.True(t, len(order) == 50 && slices.IsSorted(order), "the order is %v", order)
	})
}
