package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/internal/server"
	"github.com/deployster-go/deployster/pipeline"
)

// pipes is a network in memory, whose connections hold nothing: who reads nothing stalls who
// writes at once, and deadlines are of the time of a bubble.
type pipes struct {
	*server.Server
	accept chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// inPipes serves a log of one event in a bubble of time.
func inPipes(t *testing.T, test func(t *testing.T, log deploylog.Log, p *pipes)) {
	t.Helper()
	inPipesOf(t, func(*server.Options) {}, test)
}

// inPipesOf is inPipes with options.
func inPipesOf(t *testing.T, with func(*server.Options), test func(t *testing.T, log deploylog.Log, p *pipes)) {
	t.Helper()
	inPipesAround(t, with, func(h http.Handler) http.Handler { return h }, test)
}

// inPipesAround is inPipesOf with something around the server.
func inPipesAround(t *testing.T, with func(*server.Options), around func(http.Handler) http.Handler, test func(t *testing.T, log deploylog.Log, p *pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := logOf(t, 1)
		o := options(t, log)
		with(&o)
		p := &pipes{server.New(o), make(chan net.Conn), make(chan struct{})}
		h := &http.Server{Handler: around(p), ReadHeaderTimeout: time.Minute}
		ended := make(chan error)
		go func() { ended <- h.Serve(p) }()
		test(t, log, p)
		close(p.closed)
		_ = h.Close()
		<-ended
		<-time.After(time.Second) // for which the server lingers where a client may still send
	})
}

// dial connects, and sends a request whose body may follow.
func (p *pipes) dial(request string) net.Conn {
	here, there := net.Pipe()
	p.accept <- there
	_, _ = io.WriteString(here, strings.ReplaceAll(request, "\n", "\r\n"))
	return here
}

func readAnswer(t *testing.T, conn net.Conn) *http.Response {
	answer := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	return answer
}

// Who sends a body that never ends, or slowly, is answered in time, and no more is taken of it
// than may be.
func TestBodiesThatAreSlowOrHugeAreRefusedInTime(t *testing.T) {
	const head = "POST /v1/pipelines/gateway/commands/pause HTTP/1.1\nHost: deploy\nAuthorization: Bearer admin\nContent-Type: application/json\n"
	for name, c := range map[string]struct {
		length string
		part   string
		pause  time.Duration
		want   int
	}{
		"a byte every ten seconds":         {"Content-Length: 100\n\n", " ", 10 * time.Second, http.StatusRequestTimeout},
		"nothing":                          {"Content-Length: 100\n\n", "", time.Second, http.StatusRequestTimeout},
		"a terabyte, as it says":           {"Content-Length: 1099511627776\n\n", strings.Repeat(" ", 32<<10), 0, http.StatusRequestEntityTooLarge},
		"parts without end":                {"Transfer-Encoding: chunked\n\n", "8000\r\n" + strings.Repeat(" ", 32<<10) + "\r\n", 0, http.StatusRequestEntityTooLarge},
		"parts without end, a byte a time": {"Transfer-Encoding: chunked\n\n", "1\r\n \r\n", time.Second, http.StatusRequestTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			inPipes(t, func(t *testing.T, _ deploylog.Log, p *pipes) {
				began, conn := time.Now(), p.dial(head+c.length)
				defer conn.Close()
				var sent atomic.Int64
				var sending sync.WaitGroup
				sending.Go(func() {
					for {
						n, err := io.WriteString(conn, c.part)
						sent.Add(int64(n))
						if err != nil || c.part == "" {
							return
						}
						<-time.After(c.pause)
					}
				})
				answer := readAnswer(t, conn)
				text, err := io.ReadAll(answer.Body)
				const most, longest = 2 << 20, 40 * time.Second
				if answer.StatusCode != c.want || answer.Header.Get("Content-Type") != "application/problem+json" || err != nil {
					t.Errorf("%d %v %s, %v", answer.StatusCode, answer.Header, text, err)
				}
				if took := time.Since(began); took > longest || sent.Load() > most {
					t.Errorf("it took %v, and %d bytes", took, sent.Load())
				}
				_ = conn.Close()
				sending.Wait()
			})
		})
	}
}

// A large text that comes slowly is kept, however long that takes; one that has come fast and
// does not go on is cut off, and so is one that comes too slowly.
func TestAnUploadIsTakenAsLongAsItComes(t *testing.T) {
	content := bytes.Repeat([]byte("x"), 4<<20)
	head := fmt.Sprintf("PUT /v1/objects/%s HTTP/1.1\nHost: deploy\nAuthorization: Bearer operator\nContent-Type: application/octet-stream\nContent-Length: %d\n\n", objects.Hash(content), len(content))
	for name, c := range map[string]struct {
		first, part int
		pause       time.Duration
		want        int
		took        time.Duration
	}{
		"16 KiB each two seconds": {0, 16 << 10, 2 * time.Second, http.StatusNoContent, 8 * time.Minute},
		"nothing after 3 MiB":     {3 << 20, 0, 0, http.StatusRequestTimeout, 30 * time.Second},
		"1 KiB a second":          {0, 1 << 10, time.Second, http.StatusRequestTimeout, 39 * time.Second},
		"1 KiB each 29 seconds":   {64 << 10, 1 << 10, 29 * time.Second, http.StatusRequestTimeout, 46 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inPipes(t, func(t *testing.T, _ deploylog.Log, p *pipes) {
				began, conn := time.Now(), p.dial(head)
				defer conn.Close()
				var sending sync.WaitGroup
				sending.Go(func() {
					rest := content[c.first:]
					_, err := conn.Write(content[:c.first])
					for err == nil && c.part > 0 && len(rest) > 0 {
						<-time.After(c.pause)
						n := min(c.part, len(rest))
						_, err = conn.Write(rest[:n])
						rest = rest[n:]
					}
				})
				answer := readAnswer(t, conn)
				text, err := io.ReadAll(answer.Body)
				if took := time.Since(began); answer.StatusCode != c.want || err != nil || took < c.took || took > c.took+c.took/2 {
					t.Errorf("%d %s after %v, want %d after %v", answer.StatusCode, text, took, c.want, c.took)
				}
				_ = conn.Close()
				sending.Wait()
			})
		})
	}
}

// However much one sends, and however slowly, others send what they have meanwhile.
func TestWhoSendsSlowlyKeepsNobodyElseAway(t *testing.T) {
	const slow = 20
	content := bytes.Repeat([]byte("y"), 2<<20)
	put := func(who string) string {
		return fmt.Sprintf("PUT /v1/objects/%s HTTP/1.1\nHost: deploy\nAuthorization: Bearer %s\nContent-Type: application/octet-stream\nContent-Length: %d\n\n", objects.Hash(content), who, len(content))
	}
	inPipes(t, func(t *testing.T, _ deploylog.Log, p *pipes) {
		var sending sync.WaitGroup
		var all []net.Conn
		for range slow {
			conn := p.dial(put("operator"))
			all = append(all, conn)
			sending.Go(func() {
				for err := error(nil); err == nil; <-time.After(time.Second) {
					_, err = conn.Write(content[:8<<10])
				}
			})
		}
		<-time.After(10 * time.Second)
		began, conn := time.Now(), p.dial(put("admin"))
		sending.Go(func() { _, _ = conn.Write(content) })
		answer := readAnswer(t, conn)
		took := time.Since(began)
		assert.True(t, answer.StatusCode == http.StatusNoContent && took <= time.Second, "%d after %v", answer.StatusCode, took)
		refused := readAnswer(t, all[slow-1]) // who sends too much waits, and is told
		if text, _ := io.ReadAll(refused.Body); refused.StatusCode != http.StatusTooManyRequests || !strings.Contains(string(text), "by others or by you: send it again later") {
			t.Errorf("%d %s", refused.StatusCode, text)
		}
		for _, c := range append(all, conn) {
			_ = c.Close()
		}
		sending.Wait()
	})
}

// Who follows the log and takes nothing is disconnected, and costs no memory until then; who
// takes it gets all of it.
func TestWhoFollowsAndTakesNothingIsDisconnected(t *testing.T) {
	const stalled, following, events = 100, 5, 100
	data := fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", 100<<10))
	inPipes(t, func(t *testing.T, log deploylog.Log, p *pipes) {
		var all []net.Conn
		for i := range stalled {
			all = append(all, p.dial([]string{
				"GET /v1/events?follow=true&after=1 HTTP/1.1\nHost: deploy\nAuthorization: Bearer viewer\n\n",
				"GET /v1/events HTTP/1.1\nHost: deploy\nAuthorization: Bearer viewer\nAccept: text/event-stream\n\n",
			}[i%2]))
		}
		var taking sync.WaitGroup
		for range following {
			conn := p.dial("GET /v1/events?follow=true HTTP/1.1\nHost: deploy\nAuthorization: Bearer viewer\n\n")
			taking.Go(func() {
				defer conn.Close()
				answer := readAnswer(t, conn)
				lines := bufio.NewScanner(answer.Body)
				lines.Buffer(nil, 1<<20)
				for seq := 1; seq <= 1+events && lines.Scan(); {
					if lines.Text() == "" {
						continue
					}
					if !strings.HasPrefix(lines.Text(), fmt.Sprintf(`{"seq":%d,`, seq)) {
						t.Errorf("%.100s, want event %d", lines.Text(), seq)
						return
					}
					seq++
				}
				assert.NoError(t, lines.Err())
			})
		}
		synctest.Wait()
		before := heap()
		for i := range events {
			e := started(1000 + i)
			e.Data = data
			require.NoError(t, must.Fail(log.Append(t.Context(), e)))
		}
		taking.Wait()
		grown := heap() - before - int64(events*len(data))
		assert.LessOrEqual(t, grown, int64(24<<20), "%d who take nothing cost %d MiB", stalled, grown>>20)
		<-time.After(time.Minute)
		for i, conn := range all {
			_ = conn.SetReadDeadline(time.Now().Add(time.Second))
			_, err := io.Copy(io.Discard, conn)
			assert.True(t, err == nil || errors.Is(err, io.ErrClosedPipe), "the connection of %d is still there: %v", i, err)
			_ = conn.Close()
		}
	})
}

func heap() int64 {
	var stats runtime.MemStats
	for range 2 { // what has a finalizer goes with the second
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// However a path is written, it leads to an operation or to a problem: to no file, nowhere
// else, and to no other operation than its text says.
func TestPathsThatAreWrittenOddlyLeadNowhere(t *testing.T) {
	_, url := newServer(t, logOf(t, 1))
	at := strings.TrimPrefix(url, "http://")
	zeros := strings.Repeat("0", 64)
	for _, c := range []struct {
		method, target string
		want           int
	}{
		{"GET", "/v1//log", 404},
		{"GET", "//v1/log", 404},
		{"GET", "/v1/./log", 404},
		{"GET", "/v1/objects/../log", 404},
		{"GET", "/v1/%2e%2e/v1/log", 404},
		{"GET", "/v1/log/", 404},
		{"GET", "/v1/log/.", 404},
		{"GET", "/V1/log", 404},
		{"GET", "/v1/log%00", 404},
		{"GET", "/v1/log;x=y", 404},
		{"GET", "/v1/log%3Ffollow=true", 404},
		{"GET", "/v1%2flog", 404},
		{"GET", "/v1/events%2f", 404},
		{"GET", "/", 404},
		{"GET", "/v1/objects/" + zeros, 404},
		{"GET", "/v1/objects/..%2f..%2f..%2fetc%2fpasswd", 422},
		{"GET", "/v1/objects/%2e%2e", 422},
		{"GET", "/v1/objects/" + zeros + "%00", 422},
		{"GET", "/v1/objects/" + zeros + "%0a", 422},
		{"GET", "/v1/objects/" + strings.Repeat("A", 64), 422},
		{"POST", "/v1/pipelines//commands/pause", 404},
		{"POST", "/v1/pipelines/../commands/pause", 404},
		{"POST", "/v1/pipelines/%2e%2e/commands/pause", 404},
		{"POST", "/v1/pipelines/a%2F..%2Fb/commands/pause", 404},
		{"POST", "/v1/pipelines/%00/commands/pause", 404},
		{"POST", "/v1/pipelines/%ff%fe/commands/pause", 404},
		{"POST", "/v1/pipelines/x/commands/pause/", 404},
		{"POST", "/v1/pipelines/x/commands/pause%2f", 404},
		{"POST", "/v1/pipelines/" + strings.Repeat("x", 10_000) + "/commands/pause", 422},
		{"PUT", "/v1/objects//" + zeros, 404},
	} {
		conn := must.Get(net.Dial("tcp", at))(t)
		fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: deploy\r\nAuthorization: Bearer admin\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", c.method, c.target)
		answer := readAnswer(t, conn)
		text, _ := io.ReadAll(answer.Body)
		_ = conn.Close()
		if answer.StatusCode != c.want || answer.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %.80s: %d %v %.200s, want %d", c.method, c.target, answer.StatusCode, answer.Header, text, c.want)
		}
	}
}

func TestAnAnswerIsSentAsLongAsItIsTaken(t *testing.T) {
	content := bytes.Repeat([]byte("x"), 1<<20)
	store := objects.In(t.TempDir(), nil)
	require.NoError(t, store.KeepAll(content))
	inPipesOf(t, func(o *server.Options) { o.Objects = store }, func(t *testing.T, _ deploylog.Log, p *pipes) {
		request := "GET /v1/objects/" + objects.Hash(content) + " HTTP/1.1\nHost: deploy\nAuthorization: Bearer viewer\n\n"
		conn := p.dial(request)
		answer := readAnswer(t, conn)
		for begun, got := time.Now(), 0; got < len(content); {
			<-time.After(5 * time.Second)
			n, err := io.ReadFull(answer.Body, make([]byte, 16<<10))
			if got += n; err != nil {
				t.Fatalf("cut off after %d bytes and %v: %v", got, time.Since(begun), err)
			}
		}
		_ = conn.Close()

		stalled := p.dial(request)
		answer = readAnswer(t, stalled)
		<-time.After(time.Minute)
		_ = stalled.SetReadDeadline(time.Now().Add(time.Second))
		if n, err := io.Copy(io.Discard, answer.Body); n == int64(len(content)) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("who took nothing for a minute still got %d bytes: %v", n, err)
		}
		_ = stalled.Close()
	})
}

// What is sent a while after a token has ended is not sent to who follows with it, though the
// stream has not said that it is alive since.
func TestNothingIsSentToWhoMayReadNoMore(t *testing.T) {
	var revoked atomic.Bool
	inPipesOf(t, func(o *server.Options) {
		o.Heartbeat = time.Hour
		o.Identify = until(&revoked)
	}, func(t *testing.T, log deploylog.Log, p *pipes) {
		conn := p.dial("GET /v1/events?follow=true&after=1 HTTP/1.1\nHost: deploy\nAuthorization: Bearer viewer\n\n")
		answer := readAnswer(t, conn)
		revoked.Store(true)
		<-time.After(2 * time.Second)
		require.NoError(t, must.Fail(log.Append(t.Context(), started(7))))
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		text, err := io.ReadAll(answer.Body)
		assert.True(t, len(text) == 0 && errors.Is(err, io.ErrUnexpectedEOF), "who may read no more was sent %q, %v", text, err)
		_ = conn.Close()
	})
}

// inFile is a log as people have it, with so many pipelines, p0 and so on.
func inFile(tb testing.TB, many int) deploylog.Log {
	log := must.Get(sqlite.Open(context.Background(), filepath.Join(tb.TempDir(), "log.db"), sqlite.Options{}))(tb)
	tb.Cleanup(func() { _ = log.Close() })
	define(tb, log, many)
	return log
}

func define(tb testing.TB, log deploylog.Log, many int) {
	all := pipelines.New(log, time.Now)
	for i := range many {
		d := querytest.Definition()
		d.Name = fmt.Sprint("p", i)
		require.NoError(tb, must.Fail(all.Command(context.Background(), d.Name, pipeline.Define{Definition: d, ID: fmt.Sprint("define", i)})))
	}
}

// fresh has each command begin with an id of its own.
func fresh(o *server.Options) { o.NewID = func() string { return ulid.Make().String() } }

// Many clients at once: some follow the log, of which half leave and come back, and others record.
// Each follower gets each event once and in order.
func TestManyClientsLoseNothing(t *testing.T) {
	const following, recording, each = 16, 8, 6
	log := inFile(t, recording)
	_, url := newServer(t, log, fresh)
	var followers, recorders sync.WaitGroup
	follows := func(leaves bool) {
		for after := 0; ; {
			for line := range follow(t, url+"/v1/events", "Accept", "text/event-stream", "Last-Event-ID", strconv.Itoa(after)) {
				if id, is := strings.CutPrefix(line, "id: "); is {
					after++
					assert.Equal(t, strconv.Itoa(after), id, "the next event")
				} else if strings.Contains(line, `"run-started"`) {
					return
				} else if leaves && after%7 == 0 && strings.HasPrefix(line, "data: ") {
					break
				}
			}
		}
	}
	for i := range following {
		followers.Go(func() { follows(i%2 == 0) })
	}
	for i := range recording {
		recorders.Go(func() {
			for n := range each {
				verb := []string{"pause", "resume"}[n%2]
				expect(t, 200, verb, "POST", fmt.Sprintf("%s/v1/pipelines/p%d/commands/%s", url, i, verb), "operator", "{}")
			}
		})
	}
	recorders.Wait()
	require.NoError(t, must.Fail(log.Append(t.Context(), started(1))))
	followers.Wait()
}
