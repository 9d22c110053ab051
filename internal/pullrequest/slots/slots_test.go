package slots_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/deployster-go/deployster/internal/pullrequest/slots"
)

func take(t *testing.T, s *slots.Slots, key string) func() {
	t.Helper()
	back, err := s.Take(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return back
}

func TestEachKeyHasItsOwn(t *testing.T) {
	s := slots.New(2)
	first, second := take(t, s, "slow"), take(t, s, "slow")
	full, end := context.WithCancel(t.Context())
	end()
	if _, err := s.Take(full, "slow"); !errors.Is(err, context.Canceled) {
		t.Errorf("a third one gets %v", err)
	}
	other := take(t, s, "fast")
	other()
	first()
	first() // once is enough
	third := take(t, s, "slow")
	if _, err := s.Take(full, "slow"); err == nil {
		t.Error("giving back twice gave two back")
	}
	second()
	third()
	if n := s.Keys(); n != 0 {
		t.Errorf("%d keys are kept", n)
	}
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
		if len(order) != 50 || !slices.IsSorted(order) {
			t.Errorf("the order is %v", order)
		}
	})
}
