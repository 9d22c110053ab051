package server_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/server"
)

// Who takes nothing of a text is disconnected; who takes it slowly gets all of it, however long
// that lasts.
func TestAnAnswerIsSentAsLongAsItIsTaken(t *testing.T) {
	content := bytes.Repeat([]byte("x"), 1<<20)
	store := objects.In(t.TempDir(), nil)
	if err := store.KeepAll(content); err != nil {
		t.Fatal(err)
	}
	inPipesOf(t, func(o *server.Options) { o.Objects = store }, func(t *testing.T, _ deploylog.Log, p *pipes) {
		request := "GET /v1/objects/" + objects.Hash(content) + " HTTP/1.1\nHost: deploy\nAuthorization: Bearer viewer\n\n"
		conn := p.dial(request)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		for begun, got := time.Now(), 0; got < len(content); {
			<-time.After(5 * time.Second)
			n, err := io.ReadFull(answer.Body, make([]byte, 16<<10))
			if got += n; err != nil {
				t.Fatalf("cut off after %d bytes and %v: %v", got, time.Since(begun), err)
			}
		}
		_ = conn.Close()

		stalled := p.dial(request)
		if answer, err = http.ReadResponse(bufio.NewReader(stalled), nil); err != nil {
			t.Fatal(err)
		}
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
		o.Identify = func(r *http.Request) (identity.Identity, error) {
			if revoked.Load() {
				return identity.Identity{}, identity.ErrUnknown
			}
			return byRole(r)
		}
	}, func(t *testing.T, log deploylog.Log, p *pipes) {
		conn := p.dial("GET /v1/events?follow=true&after=1 HTTP/1.1\nHost: deploy\nAuthorization: Bearer viewer\n\n")
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		revoked.Store(true)
		<-time.After(2 * time.Second)
		if _, err := log.Append(t.Context(), started(7)); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if text, err := io.ReadAll(answer.Body); len(text) > 0 || err != nil {
			t.Errorf("who may read no more was sent %q, %v", text, err)
		}
		_ = conn.Close()
	})
}

// What follows an event that there is not has followed another log: it is told, and does not
// wait for who knows what.
func TestWhatTheLogDoesNotHaveIsNotWaitedFor(t *testing.T) {
	_, url := newServer(t, logOf(t, 3))
	for _, c := range []struct {
		query  string
		header []string
	}{
		{"?follow=true&after=4", nil},
		{"?follow=true&after=9223372036854775807", nil},
		{"", []string{"Accept", "text/event-stream", "Last-Event-ID", "4"}},
	} {
		status, _, body := ask(t, "GET", url+"/v1/events"+c.query, "viewer", "", c.header...)
		if status != http.StatusUnprocessableEntity || !strings.Contains(body, "the log ends with event 3") {
			t.Errorf("%v: %d %s", c, status, body)
		}
	}
}

// A snapshot is for the very program alone, and there is none of what nobody keeps.
func TestSnapshotsAreForThisProgramAlone(t *testing.T) {
	_, url := newServer(t, inFile(t, 1))
	for path, want := range map[string]int{
		"/v1/log/snapshots/pipelines?program=another": 404,
		"/v1/log/snapshots/pipelines?program=":        422,
		"/v1/log/snapshots/pipelines":                 422,
		"/v1/log/snapshots/secrets?program=another":   422,
		"/v1/log/snapshots/..%2Flog?program=another":  422,
	} {
		if status, _, body := ask(t, "GET", url+path, "viewer", ""); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
}
