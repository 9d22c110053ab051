package artifacts_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/artifacts"
)

// dialog is a client whose requests a function answers, on a connection in memory.
func dialog(t *testing.T, serve func(c net.Conn, r *bufio.Reader)) *http.Client {
	t.Helper()
	inner := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			serve(theirs, bufio.NewReader(theirs))
		}()
		return ours, nil
	}}
	t.Cleanup(inner.CloseIdleConnections)
	return &http.Client{Transport: artifacts.Impatient(inner, time.Minute)}
}

// closed waits until the client has closed a connection.
func closed(r io.Reader) { _, _ = io.Copy(io.Discard, r) }

// slowly is a body of which a byte comes each 50 seconds.
type slowly struct{ left int }

func (s *slowly) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	<-time.After(50 * time.Second)
	s.left--
	p[0] = 'x'
	return 1, nil
}

func TestARegistryThatIsSilentIsGivenUp(t *testing.T) {
	const silent = "nothing was sent or received for 1m0s"
	for name, c := range map[string]struct {
		body  io.Reader
		serve func(c net.Conn, r *bufio.Reader)
		wait  time.Duration
		want  string // "" is that all goes well
	}{
		"it never answers": {nil, func(_ net.Conn, r *bufio.Reader) { closed(r) }, 0, silent},
		"it takes nothing": {strings.NewReader(strings.Repeat("x", 1<<20)), func(_ net.Conn, r *bufio.Reader) { _, _ = http.ReadRequest(r); <-time.After(time.Hour) }, 0, silent},
		"it stops in the middle": {nil, func(c net.Conn, r *bufio.Reader) {
			_, _ = http.ReadRequest(r)
			_, _ = fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
			closed(r)
		}, 0, silent},
		"it gives a byte now and then": {nil, func(c net.Conn, r *bufio.Reader) {
			_, _ = http.ReadRequest(r)
			_, _ = fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
			_, _ = io.Copy(c, &slowly{10})
			closed(r)
		}, 0, ""},
		"it is given a byte now and then": {&slowly{10}, func(c net.Conn, r *bufio.Reader) {
			if request, err := http.ReadRequest(r); err == nil {
				closed(request.Body)
			}
			_, _ = fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			closed(r)
		}, 0, ""},
		"who reads takes his time": {nil, func(c net.Conn, r *bufio.Reader) {
			_, _ = http.ReadRequest(r)
			_, _ = fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			closed(r)
		}, time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://localhost/v2/", c.body)
				must(t, err)
				answer, err := dialog(t, c.serve).Do(request)
				if err == nil {
					<-time.After(c.wait)
					_, err = io.ReadAll(answer.Body)
					_ = answer.Body.Close()
				}
				assert.True(t, (c.want != "" || err == nil) && (c.want == "" || err != nil && strings.Contains(err.Error(), c.want)), "it is %v, want %q", err, c.want)
				<-time.After(2 * time.Hour) // until the server has ended
			})
		})
	}
}

// again is a transport whose connection was closed just as a request was to be sent: it sends
// it once more, slowly.
type again struct{}

func (again) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	text := ""
	for one := make([]byte, 1); ; {
		select {
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		case <-time.After(50 * time.Second):
		}
		n, err := body.Read(one)
		if text += string(one[:n]); err != nil {
			break
		}
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text)), Request: r}, body.Close()
}

// What is sent of a request counts also where it is sent once more.
func TestARequestThatIsSentAgainIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://localhost/v2/", strings.NewReader("text"))
		must(t, err)
		client := http.Client{Transport: artifacts.Impatient(again{}, time.Minute)}
		answer, err := client.Do(request)
		must(t, err)
		text, err := io.ReadAll(answer.Body)
		must(t, err)
		must(t, answer.Body.Close())
		assert.Equal(t, "text", string(text), "it has sent %q", text)
	})
}
