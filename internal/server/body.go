package server

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// A large body over a slow line takes a long time, in which it has to keep coming.
const (
	bodyIdle = 30 * time.Second // for which nothing may come of a body
	bodyRate = 4 << 10          // bytes a second that have to come beyond the first bodyIdle

	answerTime = 2 * time.Minute // for who takes the answer, after all of the body has come
)

// incoming is the body of a request, reading which fails where it does not come as fast as it
// has to.
type incoming struct {
	io.ReadCloser
	control *http.ResponseController
	begun   time.Time
	came    int64
}

// receive has the body of a request come as fast as it has to from now on.
func receive(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil {
		r.Body = &incoming{ReadCloser: r.Body, control: http.NewResponseController(w), begun: time.Now()}
	}
}

// Read implements io.Reader.
func (b *incoming) Read(into []byte) (n int, err error) {
	until := b.begun.Add(bodyIdle + time.Duration(b.came)*time.Second/bodyRate)
	if idle := time.Now().Add(bodyIdle); idle.Before(until) {
		until = idle
	}
	// A connection that knows no deadlines is one of a test.
	_ = b.control.SetReadDeadline(until)
	n, err = b.ReadCloser.Read(into)
	b.came += int64(n)
	if errors.Is(err, io.EOF) { // what is done with it then takes as long as it may
		_ = b.control.SetReadDeadline(time.Time{})
		_ = b.control.SetWriteDeadline(time.Now().Add(answerTime)) // however long the body took
	}
	return n, err
}
