package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/server"
)

// wide is an event of which few fit into what is sent at once.
func wide(n int) deploylog.Event {
	e := started(n)
	e.Data = fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", 8<<10))
	return e
}

// streamed are the ways to read events, and whether one ends by itself.
var streamed = map[string]bool{
	"GET /v1/events HTTP/1.1\nHost: deploy\nAuthorization: Bearer viewer\n\n":                                     true,
	"GET /v1/events?end=true HTTP/1.1\nHost: deploy\nAuthorization: Bearer viewer\n\n":                            true,
	"GET /v1/events?name=run-started&last=50 HTTP/1.1\nHost: deploy\nAuthorization: Bearer viewer\n\n":            true,
	"GET /v1/events?follow=true HTTP/1.1\nHost: deploy\nAuthorization: Bearer viewer\n\n":                         false,
	"GET /v1/events HTTP/1.1\nHost: deploy\nAuthorization: Bearer viewer\nAccept: text/event-stream\n\n":          false,
	"GET /v1/events?after=30 HTTP/1.1\nHost: deploy\nAuthorization: Bearer viewer\nAccept: text/event-stream\n\n": false,
}

// A slow reader whose token is revoked in the middle sees that the answer was cut off.
func TestAnAnswerThatIsCutByTheEndOfATokenDoesNotLookWhole(t *testing.T) {
	for request := range streamed {
		var revoked atomic.Bool
		inPipesOf(t, func(o *server.Options) { o.Identify = until(&revoked) }, func(t *testing.T, log deploylog.Log, p *pipes) {
			for n := range 100 {
				require.NoError(t, must.Fail(log.Append(t.Context(), wide(1+n))))
			}
			conn := p.dial(request)
			answer := readAnswer(t, conn)
			require.NoError(t, must.Fail(io.ReadFull(answer.Body, make([]byte, 20<<10))))
			revoked.Store(true)
			<-time.After(2 * time.Second)
			wantCut(t, conn, answer, request)
		})
	}
}

// wantCut expects that the rest of an answer ends otherwise than a whole one does.
func wantCut(t *testing.T, conn net.Conn, answer *http.Response, request string) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	rest, err := io.ReadAll(answer.Body)
	if answer.Header.Get("Content-Type") == "text/event-stream" {
		assert.True(t, err == nil && strings.HasSuffix(string(rest), "\n\nevent: cut\ndata: {}\n\n"), "%s ends with %v, %.100q", request, err, rest[max(0, len(rest)-100):])
	} else {
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF, "%s: it looks whole after %d bytes more", request, len(rest))
	}
	assert.NotContains(t, string(rest), `{"end":`, request)
	assert.NotContains(t, string(rest), `"problem"`, request)
	_ = conn.Close()
}

// A server that ends while it answers cuts off what is not whole.
func TestAnAnswerThatIsCutByTheEndOfAServerDoesNotLookWhole(t *testing.T) {
	for request := range streamed {
		var end context.CancelFunc
		ending := func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var ctx context.Context
				ctx, end = context.WithCancel(r.Context())
				h.ServeHTTP(w, r.WithContext(ctx))
			})
		}
		inPipesAround(t, func(*server.Options) {}, ending, func(t *testing.T, log deploylog.Log, p *pipes) {
			for n := range 100 {
				require.NoError(t, must.Fail(log.Append(t.Context(), wide(1+n))))
			}
			conn := p.dial(request)
			answer := readAnswer(t, conn)
			require.NoError(t, must.Fail(io.ReadFull(answer.Body, make([]byte, 20<<10))))
			end()
			wantCut(t, conn, answer, request)
		})
	}
}

// An answer that is whole ends with a mark, for who asks for one: what is before a server may hide
// from clients that it was cut off.
func TestAWholeAnswerEndsWithAMark(t *testing.T) {
	_, url := newServer(t, logOf(t, 5))
	for query, want := range map[string]string{
		"":                       "5",
		"&until=3":               "3",
		"&until=9":               "5",
		"&after=5":               "5",
		"&last=2":                "5",
		"&target=run/other.yaml": "5",
		"&deployment=d1&since=2200-01-01T00:00:00Z": "5",
	} {
		status, header, body := ask(t, "GET", url+"/v1/events?end=true"+query, "viewer", "")
		assert.Equal(t, 200, status, query)
		assert.Equal(t, want, header.Get(server.Until), query)
		assert.True(t, strings.HasSuffix("\n"+body, "\n{\"end\":"+want+"}\n"), "%s: %s", query, body)
		_, plain, unmarked := ask(t, "GET", url+"/v1/events?end=false"+query, "viewer", "")
		assert.Equal(t, strings.TrimSuffix(body, "{\"end\":"+want+"}\n"), unmarked, query)
		assert.NotEqual(t, plain.Get("ETag"), header.Get("ETag"), "they are not the same answer")
	}
	_, empty := newServer(t, logtest.NewMemory().Open())
	_, header, body := ask(t, "GET", empty+"/v1/events?end=true", "viewer", "")
	assert.Equal(t, "0 {\"end\":0}\n", header.Get(server.Until)+" "+body)
}

// A log that cannot be read on is told, without what only the server's own log is to say.
func TestALogThatCannotBeReadOnIsTold(t *testing.T) {
	_, url := newServer(t, unreadable{logOf(t, 1)})
	for _, more := range []string{"", "&end=true"} {
		status, _, body := ask(t, "GET", url+"/v1/events?name=run-started"+more, "viewer", "")
		assert.Equal(t, 200, status)
		assert.Contains(t, body, `{"problem":"`)
		assert.Contains(t, body, "the log of the server says why")
		assert.NotContains(t, body, "/srv/deploy")
		assert.NotContains(t, body, `"end"`)
	}
}

// An error says where something is in the workspace, and not where that is.
func TestAnErrorDoesNotSayWhereTheServerIs(t *testing.T) {
	for why, want := range map[string]string{
		"/srv/deploy/.deployster/deployments.db: event 3 is not what was appended":                     ".deployster/deployments.db: event 3 is not what was appended",
		"open /var/lib/logs/deployments.db: it is damaged in /var/lib/logs":                            "open deployments.db: it is damaged in its directory",
		"unix:///home/ops/run/docker.sock (/home/ops)":                                                 "unix://run/docker.sock (its directory)",
		"plug /srv/deployed, /home/ops2/x, https://home/ops/y":                                         "plug /srv/deployed, /home/ops2/x, https://home/ops/y",
		"open /etc/ssl/private/ca.pem: permission denied":                                              "open a file of the server: permission denied",
		"key: lstat /run/keys/ci: no such file or directory":                                           "key: lstat a file of the server: no such file or directory",
		"rename /tmp/a /tmp/b: invalid cross-device link":                                              "rename a file of the server: invalid cross-device link",
		"dial unix /run/x.sock: connect: connection refused":                                           "dial unix a file of the server: connect: connection refused",
		"open /etc/my keys/the ca.pem: permission denied":                                              "open a file of the server: permission denied",
		`exec: "/opt/my tools/git": file does not exist`:                                               `exec: a file of the server: file does not exist`,
		`open "/etc/a \"b\"/c: d.pem": permission denied`:                                              "open a file of the server: permission denied",
		"rename /tmp/a b /tmp/c:d e: invalid cross-device link":                                        "rename a file of the server: invalid cross-device link",
		`"/srv/the \"new\" one/m.yaml" of /srv/the "new" one is unix:///srv/the%20%22new%22%20one/run`: `\"m.yaml\" of its directory is unix://run`,
		"fork/exec /usr/bin/git: permission denied":                                                    "fork/exec a file of the server: permission denied",
		"open modules/web.yaml: no such file or directory":                                             "open modules/web.yaml: no such file or directory",
		"open /srv/deploy/modules/web.yaml: no such file or directory":                                 "open modules/web.yaml: no such file or directory",
		"plug docker: /var/run/docker.sock: it is not there":                                           "plug docker: /var/run/docker.sock: it is not there",
		"GET /v1/runs: read /v1/runs again":                                                            "GET /v1/runs: read /v1/runs again",
	} {
		_, url := newServer(t, unverified{logOf(t, 1), errors.New(why)}, func(o *server.Options) {
			o.Workspace, o.Places = "/srv/deploy", []string{"/var/lib/logs/", "/home/ops", `/srv/the "new" one`, "/"}
		})
		_, _, body := ask(t, "GET", url+"/v1/log/verify", "viewer", "")
		assert.Contains(t, body, `"detail":"`+want+`"`)
	}
	denied := func(path string) error { return &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission} }
	for want, err := range map[string]error{
		"key: open a file of the server: permission denied":                     fmt.Errorf("key: %w", denied("/etc/a: b/key.pem")),
		"cannot open 'a file of the server' now":                                told{"cannot open '/etc/a: b/key.pem' now", denied("/etc/a: b/key.pem")},
		`cannot open a file of the server, as of /etc/a.old, x/etc/a`:           told{`cannot open "/etc/a", as of /etc/a.old, x/etc/a`, denied("/etc/a")},
		`x\nopen a file of the server: permission denied`:                       errors.Join(errors.New("x"), denied("/etc/a: b/c: d")),
		"link a file of the server a file of the server: file already exists":   &os.LinkError{Op: "link", Old: "/tmp/a: b", New: "/tmp/a: b c", Err: fs.ErrExist},
		"exec: a file of the server: executable file not found in $PATH":        &exec.Error{Name: "/opt/a: b/git", Err: exec.ErrNotFound},
		"open a: b/web.yaml: permission denied":                                 denied("/srv/deploy/a: b/web.yaml"),
		"plug docker: /etc/x: open a file of the server: permission denied (/)": fmt.Errorf("plug docker: /etc/x: %w (/)", denied("/etc/a: b/x")),
	} {
		_, url := newServer(t, unverified{logOf(t, 1), err}, func(o *server.Options) { o.Workspace = "/srv/deploy" })
		_, _, body := ask(t, "GET", url+"/v1/log/verify", "viewer", "")
		assert.Contains(t, body, `"detail":"`+want+`"`)
	}
}

// told is an error with a text of its own.
type told struct {
	text  string
	cause error
}

func (e told) Error() string { return e.text }
func (e told) Unwrap() error { return e.cause }

// unverified is a log that is damaged.
type unverified struct {
	deploylog.Log
	why error
}

func (l unverified) Verify(context.Context, ...deploylog.Head) (deploylog.Verification, error) {
	return deploylog.Verification{}, l.why
}

// kept is a log of which another process has the turn to write for a while.
type kept struct {
	deploylog.Log
	lasts time.Duration
}

func (k kept) Lock(ctx context.Context, name string) (func(), error) {
	<-time.After(k.lasts)
	return k.Log.Lock(ctx, name)
}

func (kept) KeptBy() string { return "process 7 (deployster apply) on h" }

// A request that waits for another process says so after two seconds, before it is answered, and then
// only now and then.
func TestARequestThatWaitsSaysForWhom(t *testing.T) {
	for name, c := range map[string]struct {
		who, asks string
		lasts     time.Duration
		want      int
		by        string
	}{
		"who does not wait for long":       {"admin", "Deployster-Waits: tell\n", time.Second, 0, ""},
		"who waits for a while":            {"admin", "Deployster-Waits: tell\n", 10 * time.Second, 1, "process 7 (deployster apply) on h"},
		"who waits for long":               {"admin", "Deployster-Waits: tell\n", 50 * time.Second, 2, "process 7 (deployster apply) on h"},
		"a client that may not know these": {"admin", "", 50 * time.Second, 0, ""},
		"who has a role for one pipeline":  {"gateway", "Deployster-Waits: tell\n", 10 * time.Second, 1, "another process"},
	} {
		lasts, want := c.lasts, c.want
		inPipesOf(t, func(o *server.Options) {
			o.Log = kept{o.Log, lasts}
			o.Identify = func(r *http.Request) (identity.Identity, error) {
				who, err := byRole(r)
				if r.Header.Get("Authorization") == "Bearer gateway" {
					who, err = identity.Identity{Name: "ci", Grants: []identity.Grant{{Role: identity.Operator, Pipelines: []string{"gateway"}}}}, nil
				}
				return who, err
			}
		}, func(t *testing.T, _ deploylog.Log, p *pipes) {
			began := time.Now()
			conn := p.dial("POST /v1/pipelines/gateway/commands/pause HTTP/1.1\nHost: deploy\nAuthorization: Bearer " + c.who + "\n" + c.asks + "Content-Type: application/json\nContent-Length: 2\n\n{}")
			defer conn.Close()
			answers := bufio.NewReader(conn)
			for n := range want {
				interim := must.Get(http.ReadResponse(answers, nil))(t)
				assert.Equal(t, http.StatusProcessing, interim.StatusCode)
				assert.Equal(t, c.by, interim.Header.Get(server.Waits), name)
				assert.Equal(t, 2*time.Second+time.Duration(n)*25*time.Second, time.Since(began))
			}
			answer := must.Get(http.ReadResponse(answers, nil))(t)
			assert.Equal(t, http.StatusNotFound, answer.StatusCode, name)
			assert.Empty(t, answer.Header.Get(server.Waits))
			assert.Equal(t, lasts, time.Since(began))
		})
	}
}

// stuck is a connection that takes nothing for a while.
type stuck struct {
	http.ResponseWriter
	takes chan struct{}
}

func (s stuck) Write(p []byte) (int, error) {
	<-s.takes
	return len(p), nil
}
func (stuck) FlushError() error { return nil }

// As much is kept of the backlog for a follower that takes nothing as is sent at once, however much there is,
// and nothing of the log is being read for it.
func TestLittleIsKeptForAFollowerThatTakesNothing(t *testing.T) {
	for name, size := range map[string]int{"small events": 10, "usual ones": 1000, "large ones": 9 << 10} {
		synctest.Test(t, func(t *testing.T) {
			log := logtest.NewMemory().Open()
			for n := range 200 {
				e := started(n)
				e.Data = fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", size))
				require.NoError(t, must.Fail(log.Append(t.Context(), e)))
			}
			reads := &atomic.Int32{}
			s := server.New(options(t, reading{log, reads}))
			takes := make(chan struct{})
			keeps, sent := s.SendBacklog(t.Context(), deploylog.Filter{Until: 200}, identity.Identity{Name: "ada", Grants: []identity.Grant{{Role: identity.Viewer}}}, stuck{takes: takes})
			synctest.Wait()
			assert.LessOrEqual(t, keeps(), max(8<<10, size+1<<10), name)
			assert.Zero(t, reads.Load(), name)
			close(takes)
			assert.NoError(t, <-sent, name)
		})
	}
}

// reading counts the reads of a log that are under way.
type reading struct {
	deploylog.Log
	now *atomic.Int32
}

func (r reading) Read(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		r.now.Add(1)
		defer r.now.Add(-1)
		r.Log.Read(ctx, f)(yield)
	}
}

// verifying is a log that takes long to be verified.
type verifying struct {
	deploylog.Log
	begun, goes chan struct{}
}

func (v verifying) Verify(ctx context.Context, known ...deploylog.Head) (deploylog.Verification, error) {
	v.begun <- struct{}{}
	<-v.goes
	return v.Log.Verify(ctx, known...)
}

// One verifies the log at a time. Another one is told at once to try again.
func TestASecondVerificationIsToldToTryAgain(t *testing.T) {
	log := verifying{logOf(t, 3), make(chan struct{}, 2), make(chan struct{})}
	_, url := newServer(t, log)
	first := make(chan int, 1)
	go func() {
		status, _, _ := ask(t, "GET", url+"/v1/log/verify", "viewer", "")
		first <- status
	}()
	<-log.begun
	status, header, body := ask(t, "GET", url+"/v1/log/verify", "viewer", "")
	assert.Equal(t, http.StatusTooManyRequests, status)
	assert.Equal(t, "10", header.Get("Retry-After"))
	assert.Contains(t, body, "ask again later")
	close(log.goes)
	assert.Equal(t, http.StatusOK, <-first)
	status, _, _ = ask(t, "GET", url+"/v1/log/verify", "viewer", "")
	assert.Equal(t, http.StatusOK, status)
}
