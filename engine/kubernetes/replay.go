package kubernetes

import (
	"errors"
	"io"
	"strings"
	"sync"
)

// mostKept is how much of an input is kept for another Pod, should the connection with one break before
// its program has begun.
const mostKept = 64 << 20

// replay is the input of a run, which can be read again from its beginning until forget is called.
// Its source is read by one reader at a time, and never further than a reader asks for.
type replay struct {
	from io.Reader

	mu      sync.Mutex
	changed *sync.Cond
	kept    []byte
	dropped int64 // bytes before those that are kept
	done    bool  // forget was called
	reading bool
	piece   []byte // of who reads
	err     error
}

// newReplay returns the input of a run; nil is an empty one.
func newReplay(from io.Reader) *replay {
	if from == nil {
		from = strings.NewReader("")
	}
	r := &replay{from: from}
	r.changed = sync.NewCond(&r.mu)
	return r
}

// forget keeps nothing any more: the program has begun.
func (r *replay) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = true
}

// again reports whether the input can be read from its beginning.
func (r *replay) again() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped == 0 && !r.done
}

// reader reads the input from its beginning.
func (r *replay) reader() io.Reader { return &replayed{of: r} }

type replayed struct {
	of *replay
	at int64
}

// errReplayed is the error of a reader in whose place another one reads.
var errReplayed = errors.New("the input is read elsewhere")

// Read implements io.Reader.
func (r *replayed) Read(p []byte) (int, error) {
	of := r.of
	of.mu.Lock()
	defer of.mu.Unlock()
	for {
		switch {
		case r.at < of.dropped:
			return 0, errReplayed
		case r.at < of.dropped+int64(len(of.kept)):
			n := copy(p, of.kept[r.at-of.dropped:])
			r.at += int64(n)
			of.trim(r.at)
			return n, nil
		case of.err != nil:
			return 0, of.err
		case len(p) == 0:
			return 0, nil
		case of.reading:
			of.changed.Wait()
		default:
			of.read(len(p))
		}
	}
}

// read reads on. It is called with the lock, which others get meanwhile.
func (r *replay) read(most int) {
	if len(r.piece) < most {
		r.piece = make([]byte, most)
	}
	r.reading = true
	r.mu.Unlock()
	n, err := 0, io.ErrUnexpectedEOF // where the source panics
	defer func() {
		r.mu.Lock()
		r.kept, r.err, r.reading = append(r.kept, r.piece[:n]...), err, false
		r.changed.Broadcast()
	}()
	n, err = r.from.Read(r.piece[:most])
}

// trim drops what was read and is not needed again.
func (r *replay) trim(to int64) {
	if len(r.kept) > mostKept {
		r.done = true
	}
	if r.done {
		r.kept = r.kept[to-r.dropped:]
		r.dropped = to
		if len(r.kept) == 0 {
			r.kept = nil
		}
	}
}
