package docker

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/waittest"
)

// watching is a Watch of an engine.
type watching struct {
	*testing.T
	direct  *Engine       // the same, by another way
	id      string        // of a container that stays
	changes chan struct{} // has a value after a change
	ended   chan error
}

// watch begins to watch an engine, and returns when changes are reported.
func watch(ctx context.Context, t *testing.T, e *Engine) watching {
	t.Helper()
	w := watching{T: t, direct: open(t), changes: make(chan struct{}, 1), ended: make(chan error, 1)}
	w.id = resident(t, w.direct)
	go func() {
		w.ended <- e.Watch(ctx, "deployster.enginetest", func() {
			select {
			case w.changes <- struct{}{}:
			default:
			}
		})
	}()
	// Only an event shows that the engine has begun to send events.
	for ctx := waittest.Context(t); ; {
		w.pause()
		w.unpause()
		select {
		case <-w.changes:
			return w
		case err := <-w.ended:
			t.Fatal(err)
		case <-time.After(20 * time.Millisecond):
		}
		require.NoError(t, ctx.Err(), "no change is reported")
	}
}

// resident starts a container that stays.
func resident(t *testing.T, e *Engine) string {
	t.Helper()
	probe := loadProbe(t, e)
	created, err := e.client.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config:     &container.Config{Image: probe.ref, Cmd: []string{"hang"}, NetworkDisabled: true},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, e.Remove(context.WithoutCancel(t.Context()), created.ID))
	})
	if _, err := e.client.ContainerStart(t.Context(), created.ID, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	return created.ID
}

func (w watching) pause() {
	w.Helper()
	if _, err := w.direct.client.ContainerPause(w.Context(), w.id, client.ContainerPauseOptions{}); err != nil {
		w.Fatal(err)
	}
}

func (w watching) unpause() {
	w.Helper()
	if _, err := w.direct.client.ContainerUnpause(w.Context(), w.id, client.ContainerUnpauseOptions{}); err != nil {
		w.Fatal(err)
	}
}

// end returns the error that the watch ends with.
func (w watching) end() error {
	w.Helper()
	return waittest.Receive(w, w.ended, "the end of the watch")
}

func TestAWatchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := watch(ctx, t, open(t))
	cancel()
	assert.ErrorIs(t, w.end(), context.Canceled)
}

func TestAWatchEndsWhenTheEngineGoesAway(t *testing.T) {
	between := newWire(t, localSocket(t))
	e := openWith(t, Options{Host: "unix://" + between.path})
	w := watch(t.Context(), t, e)
	between.cut()
	checkError(t, w.end(), nil, "watch the engine's containers")

	// Nobody is there any more.
	checkError(t, e.Watch(t.Context(), "", func() { t.Error("a change is reported") }), nil, "watch the engine's containers", "systemctl start docker")
}

// wire is a socket that leads to another one until it is cut.
type wire struct {
	path     string
	listener net.Listener

	mu    sync.Mutex
	conns []net.Conn
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	w := &wire{path: filepath.Join(t.TempDir(), "socket")}
	var err error
	if w.listener, err = net.Listen("unix", w.path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cut)
	go func() {
		for {
			near, err := w.listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("unix", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			w.mu.Lock()
			w.conns = append(w.conns, near, far)
			w.mu.Unlock()
			go func() { _, _ = io.Copy(far, near) }()
			go func() { _, _ = io.Copy(near, far) }()
		}
	}()
	return w
}

func (w *wire) cut() {
	_ = w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close()
	}
}

// Which containers are reported can be counted only where nobody else has any.
func TestAWatchLeavesOutContainersWithALabel(t *testing.T) {
	asked := make(chan string, 1)
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/events") {
			return // a ping
		}
		asked <- r.URL.Query().Get("filters")
		for _, labels := range []string{`{"image":"a"}`, `{"image":"a","ours":"1"}`, `{"ours":""}`, `{"theirs":"ours"}`, `null`} {
			fmt.Fprintf(w, `{"Type":"container","Action":"die","Actor":{"ID":"x","Attributes":%s}}`+"\n", labels)
		}
	}))
	t.Cleanup(daemon.Close)
	e := openWith(t, Options{Host: "tcp://" + strings.TrimPrefix(daemon.URL, "http://")})
	reported := 0
	assert.ErrorIs(t, e.Watch(t.Context(), "ours", func() { reported++ }), io.EOF)
	assert.Equal(t, 3, reported, "changes are reported")
	filters := <-asked
	for _, want := range []string{"container", "start", "die", "oom", "pause", "unpause", "health_status", "destroy"} {
		assert.Contains(t, filters, `"`+want+`":true`, "the engine is asked for %s, without %s", filters, want)
	}
}
