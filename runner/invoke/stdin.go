package invoke

import (
	"io"
	"sync"
)

// stdinQueue is the stdin of a process: what is put into it waits there until it
// is read.
type stdinQueue struct {
	mu      sync.Mutex
	changed sync.Cond
	data    []byte
	written int64 // bytes so far
	read    int64
	closed  bool
}

func newStdinQueue() *stdinQueue {
	q := &stdinQueue{}
	q.changed.L = &q.mu
	return q
}

// put appends data and returns where it begins.
func (q *stdinQueue) put(data []byte) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.written
	q.data = append(q.data, data...)
	q.written += int64(len(data))
	q.changed.Signal()
	return at
}

// close lets the reader see the end after what there is.
func (q *stdinQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}

// unread reports whether nothing that begins at an offset was read.
func (q *stdinQueue) unread(offset int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.read <= offset
}

func (q *stdinQueue) Read(into []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.data) == 0 && !q.closed {
		q.changed.Wait()
	}
	if len(q.data) == 0 {
		return 0, io.EOF
	}
	n := copy(into, q.data)
	q.read += int64(n)
	if q.data = q.data[n:]; len(q.data) == 0 {
		q.data = nil
	}
	return n, nil
}
