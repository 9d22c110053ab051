package unwatched_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/unwatched"
)

func TestTimeThatNobodyWatchedIsNotCounted(t *testing.T) {
	begin := time.Date(2017, 9, 6, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return begin.Add(time.Duration(minutes) * time.Minute) }
	s := unwatched.Spans{}.Add(unwatched.Span{From: at(10), To: at(20)}).Add(unwatched.Span{From: at(15), To: at(40)}).Add(unwatched.Span{From: at(5), To: at(30)}).Add(unwatched.Span{From: at(100), To: at(160)})
	assert.Len(t, s, 3, "what is there already is no other one")
	for name, test := range map[string]struct{ from, minutes, want int }{
		"before all":              {0, 10, 10},
		"into the first":          {0, 11, 41},
		"from within":             {30, 5, 45},
		"to the second":           {0, 70, 100},
		"across two":              {0, 71, 161},
		"after all":               {200, 5, 205},
		"until just before":       {0, 69, 99},
		"that begins where it is": {100, 1, 161},
	} {
		assert.Equal(t, at(test.want), s.After(at(test.from), time.Duration(test.minutes)*time.Minute), name)
	}
	assert.Equal(t, 30*time.Minute+5*time.Minute, s.Between(at(0), at(105)))
	assert.Equal(t, at(45), s.Before(at(35)).After(at(0), 20*time.Minute), "a clock that was set back")
	assert.Zero(t, unwatched.Since(at(0), at(1)))
	assert.Equal(t, at(1), unwatched.Since(at(0), at(2)))
	for range 2 * unwatched.Most {
		last := s[len(s)-1].To
		s = s.Add(unwatched.Span{From: last.Add(time.Second), To: last.Add(time.Minute)})
	}
	assert.Len(t, s, unwatched.Most)
}
