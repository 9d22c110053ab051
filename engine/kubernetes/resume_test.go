package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/waittest"
)

// errCut is the end of a connection that a test cuts.
var errCut = errors.New("connection reset by peer")

// limit lets so many bytes pass, and then calls stop, once.
type limit struct {
	left atomic.Int64
	done atomic.Bool
	stop func() error
}

func after(bytes int, stop func() error) *limit {
	l := &limit{stop: stop}
	l.left.Store(int64(bytes))
	return l
}

func (l *limit) pass(p []byte) error {
	if l.left.Add(-int64(len(p))) < 0 && l.done.CompareAndSwap(false, true) {
		return l.stop()
	}
	return nil
}

// action is a program that notes what it does, and its run.
type action struct {
	ledger string
	spec   engine.Spec
	input  string
	hold   string // the program goes on once this file is gone
	out    bytes.Buffer
	mu     sync.Mutex
}

const largeInput = 200_000

func newAction(t *testing.T, whole bool) *action {
	dir := t.TempDir()
	a := &action{ledger: filepath.Join(dir, "ledger"), hold: filepath.Join(dir, "hold"), input: strings.Repeat("input\r\n", largeInput/7)}
	script := `echo begun >>$0; wc -c; printf 'one\r\ntwo\020\n'; while [ -e $1 ]; do sleep 0.02; done; echo three; printf 'no line' ; echo done >>$0; exit 7`
	if !whole { // it learns from its own protocol whether it has all
		script = strings.Replace(script, "wc -c", fmt.Sprintf("wc -c >/dev/null; echo %d", len(a.input)), 1)
	}
	a.spec = engine.Spec{Image: "probe", Args: []string{"sh", "-c", script, a.ledger, a.hold}, Whole: whole}
	return a
}

func (a *action) wants() string {
	return fmt.Sprintf("%d\none\r\ntwo\020\nthree\nno line", len(a.input))
}

func (a *action) run(t *testing.T, e *Engine) (engine.Exit, error) {
	out := writerFunc(func(p []byte) (int, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.out.Write(p)
	})
	return e.Run(t.Context(), a.spec, engine.IO{Stdin: strings.NewReader(a.input), Stdout: out})
}

func (a *action) said() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.out.String()
}

func (a *action) did() string {
	text, _ := os.ReadFile(a.ledger)
	return string(text)
}

// ended checks that the action was done once, and that its run knows how it ended.
func (a *action) ended(t *testing.T, where string, n *node, exit engine.Exit, err error) {
	t.Helper()
	if err != nil || exit.Code != 7 || a.said() != a.wants() || a.did() != "begun\ndone\n" {
		t.Errorf("%s: %v, %v, it said %q and did %q", where, exit, err, a.said(), a.did())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	assert.Empty(t, n.pods, "%s: Pods are left", where)
}

// A connection that breaks at any point of a run costs nothing but time.
func TestAnActionSurvivesItsConnection(t *testing.T) {
	t.Parallel()
	cut := func() error { return errCut }
	for _, whole := range []bool{true, false} {
		for name, c := range map[string]struct {
			in, out int // bytes after which the connection is cut; -1 is never
			torn    bool
		}{
			"before the shim is called":    {0, -1, false},
			"before the shim is heard":     {-1, 0, false},
			"when it is heard":             {4, -1, false},
			"while the input is sent":      {80_000, -1, false},
			"while the end of it is sent":  {largeInput - 3, -1, false},
			"when the program begins":      {-1, 9, false},
			"within what it says first":    {-1, 30, false},
			"within what it says then":     {-1, 50, false},
			"while it is at work":          {-1, 75, false},
			"before it says how it ended":  {-1, 110, false},
			"while its node does not hear": {-1, 60, true},
			"before the caller is done":    {largeInput + 100, -1, false},
			"never":                        {-1, -1, false},
		} {
			t.Run(fmt.Sprintf("%s, whole %t", name, whole), func(t *testing.T) {
				t.Parallel()
				n, e := aNode(t)
				in, out := after(max(c.in, 0), cut), after(max(c.out, 0), cut)
				n.wire = func() wiring {
					w := wiring{torn: c.torn}
					if c.in >= 0 {
						w.in = in.pass
					}
					if c.out >= 0 {
						w.out = out.pass
					}
					return w
				}
				a := newAction(t, whole)
				exit, err := a.run(t, e)
				a.ended(t, name, n, exit, err)
			})
		}
	}
}

// Nothing comes through a connection, and it stays: it is noticed by the silence.
func TestASilentConnectionIsNoticed(t *testing.T) {
	t.Parallel()
	for name, out := range map[string]int{"before the shim is heard": 0, "while the program is at work": 75, "before it says how it ended": 110} {
		for _, torn := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, torn %t", name, torn), func(t *testing.T) {
				t.Parallel()
				n, e := aNode(t)
				var dead atomic.Bool
				swallow := after(out, func() error { dead.Store(true); return nil })
				first := true
				n.wire = func() wiring {
					if !first {
						return wiring{}
					}
					first = false
					pass := func(p []byte) error {
						if dead.Load() {
							return errSwallowed
						}
						return nil
					}
					return wiring{torn: torn, in: pass, out: func(p []byte) error { _ = swallow.pass(p); return pass(p) }}
				}
				a := newAction(t, true)
				exit, err := a.run(t, e)
				a.ended(t, name, n, exit, err)
			})
		}
	}
}

// An API server that is away comes back, and the run goes on, unless that takes too long.
func TestAPodIsAskedForAgainForAsLongAsLostForSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lostFor time.Duration
		back    bool
	}{"it comes back": {time.Minute, true}, "it does not": {2 * time.Second, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, e := aNode(t)
			e.lostFor = c.lostFor
			var away atomic.Bool
			n.refused = func(string) (int, any) {
				if away.Load() {
					return 0, refused
				}
				return 0, nil
			}
			breaks := after(75, func() error { away.Store(true); return errCut })
			n.wire = func() wiring { return wiring{out: breaks.pass} }
			a := newAction(t, true)
			require.NoError(t, os.WriteFile(a.hold, nil, 0o600))
			type result struct {
				exit engine.Exit
				err  error
			}
			ended := make(chan result, 1)
			go func() {
				exit, err := a.run(t, e)
				ended <- result{exit, err}
			}()
			waittest.Until(t, away.Load, "the connection is cut")
			if c.back {
				require.NoError(t, os.Remove(a.hold))
				waittest.Until(t, func() bool { return strings.Contains(a.did(), "done") }, "the program ends meanwhile")
				away.Store(false)
				r := waittest.Receive(t, ended, "the run ends")
				a.ended(t, name, n, r.exit, r.err)
				return
			}
			r := waittest.Receive(t, ended, "the run ends")
			if !errors.Is(r.err, engine.ErrUnavailable) || !errors.Is(r.err, errUnread) || !strings.Contains(r.err.Error(), "has not said") || !strings.Contains(r.err.Error(), "its program had begun") {
				t.Errorf("%v", r.err)
			}
			away.Store(false)
			require.NoError(t, os.Remove(a.hold))
			waittest.Until(t, func() bool { return a.did() == "begun\ndone\n" }, "the program comes to its end")
		})
	}
}

// What cannot be read any more is no success, and nothing is removed for it.
func TestALogThatDoesNotHaveEverythingIsNoEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		disturb func(n *node, p *nodePod)
		says    string
	}{
		"it was begun anew": {func(_ *node, p *nodePod) { p.from = len(p.out) }, "its log does not have all of its output any more"},
		"it is not there":   {func(_ *node, p *nodePod) { p.lost = true }, "has not said"},
		"nobody may read it": {func(n *node, _ *nodePod) {
			n.refused = func(request string) (int, any) {
				if request == "log" {
					code, status := refusal(http.StatusForbidden, metav1.StatusReasonForbidden)
					said := status.(metav1.Status)
					said.Message = `cannot get resource "pods/log"`
					return code, said
				}
				return 0, nil
			}
		}, "grant the verb get on pods/log"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, e := aNode(t)
			e.lostFor, e.silence = 2*time.Second, time.Hour // no call is answered in between
			a := newAction(t, true)
			require.NoError(t, os.WriteFile(a.hold, nil, 0o600))
			breaks := after(30, func() error { return errCut })
			n.wire = func() wiring {
				return wiring{out: func(p []byte) error {
					err := breaks.pass(p)
					if err != nil {
						n.mu.Lock()
						defer n.mu.Unlock()
						for _, pod := range n.pods {
							pod.mu.Lock()
							c.disturb(n, pod)
							pod.mu.Unlock()
						}
						_ = os.Remove(a.hold)
					}
					return err
				}}
			}
			_, err := a.run(t, e)
			if !errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, errUnread) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			waittest.Until(t, func() bool { return a.did() == "begun\ndone\n" }, "the program comes to its end")
			n.mu.Lock()
			defer n.mu.Unlock()
			assert.Len(t, n.pods, 1, "Pods that are left")
		})
	}
}

func TestAnInputIsReadAgainUntilItsProgramBegins(t *testing.T) {
	r := newReplay(io.MultiReader(strings.NewReader("one "), strings.NewReader("two "), strings.NewReader("three")))
	first := r.reader()
	piece := make([]byte, 6)
	for range 2 {
		_, err := first.Read(piece)
		require.NoError(t, err)
	}
	second := r.reader()
	_, err := io.ReadFull(second, piece)
	require.NoError(t, err)
	assert.Equal(t, "one tw", string(piece))
	assert.True(t, r.again())
	r.forget()
	rest, err := io.ReadAll(second)
	require.NoError(t, err)
	assert.Equal(t, "o three", string(rest))
	_, err = first.Read(piece)
	assert.ErrorIs(t, err, errReplayed)
	assert.False(t, r.again())
}

// A Pod whose program never starts says so, and nobody waits for its log.
func TestAPodThatNeverStartsHasNoLog(t *testing.T) {
	for name, c := range map[string]struct {
		is   corev1.PodStatus
		says string
	}{
		"its image is not there": {state(mainContainer, waiting("InvalidImageName")), "InvalidImageName"},
		"it cannot be prepared":  {state(prepareContainer, ended(1, "Error")), "preparing the Pod ended with 1"},
		"it was evicted":         {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "no room"}, "Evicted: no room"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := runOf(t, func(string) (int, any) { return http.StatusOK, aPod(c.is) }, engine.Spec{}, func(err error) { t.Errorf("%s: %v", name, err) })
			r.connect = func(string, string) (remotecommand.Executor, error) { return nil, errors.New("container not found") }
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			begun := time.Now()
			go r.watchOver(ctx)
			_, err := r.perform(ctx)
			if err == nil || !strings.Contains(err.Error(), c.says) || time.Since(begun) > time.Minute {
				t.Errorf("%s: after %s: %v", name, time.Since(begun), err)
			}
		})
	}
}
