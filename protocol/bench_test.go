package protocol

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a request costs in addition to the work of the type: two pipes, decoding and
// encoding, on both sides.
func BenchmarkServedRequest(b *testing.B) {
	s := start(b.Context(), obedient(nil, nil))
	request := line(b, 1, script{Answer: "fine"}, "state")
	for b.Loop() {
		s.ask(b, request)
		a := s.hear(b)
		_, err := DecodeState(a.Output)
		require.NoError(b, err)
	}
	_ = s.stdin.Close()
	<-s.ended
}

// The same, with as many questions on their way as the process takes.
func BenchmarkServedRequestsAtOnce(b *testing.B) {
	s := start(b.Context(), obedient(nil, nil))
	request := line(b, 1, script{Answer: "fine"}, "state")
	var asking sync.WaitGroup
	asking.Go(func() {
		for range b.N {
			s.ask(b, request)
		}
	})
	for range b.N {
		s.hear(b)
	}
	asking.Wait()
	_ = s.stdin.Close()
	<-s.ended
}
