package runner

import (
	"io"
	"sync"
)

// feed is the stdin of a process: what is put into it waits there until it is
// read.
type feed struct {
	mu     sync.Mutex
	more   sync.Cond
	data   []byte
	put    int64 // bytes so far
	taken  int64
	closed bool
}

func newFeed() *feed {
	f := &feed{}
	f.more.L = &f.mu
	return f
}

// add appends data and returns where it begins.
func (f *feed) add(data []byte) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.put
	f.data = append(f.data, data...)
	f.put += int64(len(data))
	f.more.Signal()
	return at
}

// close lets the reader see the end after what there is.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.more.Broadcast()
}

// unread tells whether nothing that begins at a place was read.
func (f *feed) unread(at int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.taken <= at
}

func (f *feed) Read(into []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.data) == 0 && !f.closed {
		f.more.Wait()
	}
	if len(f.data) == 0 {
		return 0, io.EOF
	}
	n := copy(into, f.data)
	f.taken += int64(n)
	if f.data = f.data[n:]; len(f.data) == 0 {
		f.data = nil
	}
	return n, nil
}
