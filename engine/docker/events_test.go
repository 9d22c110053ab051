package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
)

type watching struct {
	*testing.T
	direct  *Engine       // the same, by another way
	id      string        // of a container that stays
	changes chan struct{} // has a value after a change
	ended   chan error
}

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

func resident(t *testing.T, e *Engine) string {
	probe := loadProbe(t, e)
	created := must.Get(e.client.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config:     &container.Config{Image: probe.ref, Cmd: []string{"hang"}, NetworkDisabled: true},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	}))(t)
	t.Cleanup(func() { assert.NoError(t, e.Remove(context.WithoutCancel(t.Context()), created.ID)) })
	must.Get(e.client.ContainerStart(t.Context(), created.ID, client.ContainerStartOptions{}))(t)
	return created.ID
}

func (w watching) pause() {
	must.Get(w.direct.client.ContainerPause(w.Context(), w.id, client.ContainerPauseOptions{}))(w)
}

func (w watching) unpause() {
	must.Get(w.direct.client.ContainerUnpause(w.Context(), w.id, client.ContainerUnpauseOptions{}))(w)
}

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

func TestClosingWaitsUntilEndedContainersAreRemoved(t *testing.T) {
	watcher := open(t)
	probe := loadProbe(t, watcher)
	e := open(t)
	spec := probe.spec("exit", "0")
	spec.Labels = map[string]string{"deployster.enginetest": rand.Text()}
	for range 3 {
		must.Get(e.Run(t.Context(), spec, engine.IO{}))(t)
		assert.Empty(t, must.Get(e.Containers(t.Context(), spec.Labels))(t))
	}
	require.NoError(t, e.Close())
	assert.Empty(t, must.Get(watcher.Containers(t.Context(), spec.Labels))(t))
}

// Nothing is left of it also where nobody is there any more to remove it.
func TestThePassingAreRemovedByTheEngine(t *testing.T) {
	e := open(t)
	spec := loadProbe(t, e).spec("cat")
	spec.Network, spec.Offline, spec.Passing = "", true, true
	spec.Labels = map[string]string{"deployster.enginetest": rand.Text()}
	in, give := io.Pipe()
	take, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := e.Run(t.Context(), spec, engine.IO{Stdin: in, Stdout: out})
		ended <- errors.Join(err, out.Close())
	}()
	if _, err := io.WriteString(give, "."); err != nil {
		t.Fatal(err)
	}
	if _, err := take.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	running, err := e.Containers(t.Context(), spec.Labels)
	require.True(t, err == nil && len(running) == 1 && running[0].Running, "while it runs: %v (%v)", running, err)
	_ = give.Close()
	require.NoError(t, <-ended)
	end := <-e.await(t.Context(), running[0].ID, container.WaitConditionRemoved)
	assert.True(t, end.err == nil || errdefs.IsNotFound(end.err), "%v", end.err)
	left, err := e.Containers(t.Context(), spec.Labels)
	assert.True(t, err == nil && len(left) == 0, "left behind: %v (%v)", left, err)
}

func TestEndedRunsWaitWhenTooManyContainersAreBeingRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, slow := newRemovals(), make(chan struct{})
		for i := range removalsAtOnce {
			r.begin(fmt.Sprint(i), func() { <-slow })
		}
		begun := false
		go func() {
			r.begin("one more", func() {})
			begun = true
		}()
		synctest.Wait()
		assert.True(t, !begun, "one more is removed than may be")
		under := r.now()
		assert.True(t, len(under) == removalsAtOnce+1 && under["one more"], "%v count as being removed, want those that wait, too", under)
		close(slow)
		synctest.Wait()
		under = r.now()
		assert.True(t, begun && len(under) == 0, "%v still count as being removed", under)
	})
}

func TestSavedImagesCanBeLoaded(t *testing.T) {
	e := open(t)
	probe := loadProbe(t, e)
	saved := must.Get(e.Save(t.Context(), probe.ref))(t)
	tar, err := io.ReadAll(saved)
	require.NoError(t, errors.Join(err, saved.Close()))
	forget(t, e, probe.ref)
	require.NoError(t, e.Load(t.Context(), bytes.NewReader(tar)))
	if _, err := e.Image(t.Context(), probe.ref, engine.PullNever, nil); err != nil {
		t.Error(err)
	}
	_, err = e.Save(t.Context(), "no-such:image")
	checkError(t, err, engine.ErrNoImage, "no-such:image", "docker images")
}

// Docker reports a lack of memory with a delay, which on a busy machine is seconds after the end.
func TestALackOfMemoryThatIsToldOfAfterTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		code   int
		lacks  bool // whether memory was lacking
		after  time.Duration
		lacked bool
		took   time.Duration
	}{
		"of a container that was killed":            {code: killed, lacks: true, after: 2 * time.Second, lacked: true, took: 2 * time.Second},
		"of one that was killed on request":         {code: killed, after: time.Second, took: time.Second},
		"of one of which nobody knows who did it":   {code: killed, lacks: true, after: time.Hour, took: oomTimeoutKilled},
		"of one that ended by itself":               {lacks: true, after: time.Millisecond, lacked: true, took: time.Millisecond},
		"of one that ended by itself, but too late": {lacks: true, after: time.Second, took: oomTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				result := make(chan bool, 1)
				timer := time.AfterFunc(c.after, func() { result <- c.lacks })
				defer timer.Stop()
				began := time.Now()
				if got := oomWatch(result).happened(t.Context(), c.code); got != c.lacked || time.Since(began) != c.took {
					t.Errorf("%v after %s, want %v after %s", got, time.Since(began), c.lacked, c.took)
				}
			})
		})
	}
	assert.True(t, !oomWatch(nil).happened(t.Context(), killed), "a container without a limit lacked memory")
}

// An interrupted run does not wait for what Docker may still report.
func TestTheWaitForALackOfMemoryIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		assert.True(t, !oomWatch(make(chan bool)).happened(ctx, killed) &&
			time.Since(began) == time.Second, "it took %s", time.Since(began))
	})
}

func TestWhichEventTellsOfALackOfMemory(t *testing.T) {
	signal := func(number string) events.Message {
		return events.Message{Action: events.ActionKill, Actor: events.Actor{Attributes: map[string]string{"signal": number}}}
	}
	lack, removed := events.Message{Action: events.ActionOOM}, events.Message{Action: events.ActionDestroy}
	for name, c := range map[string]struct {
		events []events.Message
		want   bool
	}{
		"it lacks memory":                     {[]events.Message{lack}, true},
		"after a signal that it outlives":     {[]events.Message{signal("15"), lack}, true},
		"it is killed, and what follows":      {[]events.Message{signal("9"), lack}, false},
		"it is removed":                       {[]events.Message{removed}, false},
		"the events end":                      {nil, false},
		"nothing more, after a small signal ": {[]events.Message{signal("1")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			messages, failed := make(chan events.Message), make(chan error)
			go func() {
				for _, m := range c.events {
					select {
					case messages <- m:
					case <-t.Context().Done():
					}
				}
				select {
				case failed <- io.EOF:
				case <-t.Context().Done():
				}
			}()
			got, err := awaitOOM(t.Context(), messages, failed)
			assert.True(t, got == c.want && (err == nil || errors.Is(err, io.EOF)), "lacked memory: %v, %v", got, err)
		})
	}
}
