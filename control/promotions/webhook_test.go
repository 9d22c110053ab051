package promotions_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

const hookKey = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// receiver is a program that is asked to bring revisions to environments. It is outside of the
// time of the world.
type receiver struct {
	testing.TB
	*httptest.Server
	mu        sync.Mutex
	requests  []promotions.Request
	refusals  int // of the next requests
	workspace string
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{TB: t, workspace: t.TempDir()}
	place(t, r.workspace, "secrets/hook.key", hookKey+"\n")
	verifier, err := standardwebhooks.NewWebhook(hookKey)
	require.NoError(t, err)
	r.Server = httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		var got promotions.Request
		assert.NoError(t, json.Unmarshal(body, &got))
		if request.Header.Get("Webhook-Id") != got.Key { // the time of the signature is that of the world
			t.Errorf("it is not signed as what it is: %v", request.Header)
		}
		if signed, err := verifier.Sign(got.Key, unix(t, request.Header.Get("Webhook-Timestamp")), body); err != nil || signed != request.Header.Get("Webhook-Signature") {
			t.Errorf("the signature is %q, not %q", request.Header.Get("Webhook-Signature"), signed)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.refusals > 0 {
			r.refusals--
			http.Error(to, "not\x1b[31m now\nplease", http.StatusServiceUnavailable)
			return
		}
		r.requests = append(r.requests, got)
		to.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(to, "job 7 has begun")
	}))
	t.Cleanup(r.Close)
	return r
}

func unix(t testing.TB, text string) time.Time {
	seconds, err := json.Number(text).Int64()
	assert.NoError(t, err)
	return time.Unix(seconds, 0)
}

// asks has the stages but the first ask the receiver.
func (r *receiver) asks(d *definition.Definition) {
	for i := range d.Stages[1:] {
		d.Stages[i+1].Strategy = definition.WithWebhook
		d.Stages[i+1].Webhook = &definition.Webhook{URL: r.URL, KeyFile: "secrets/hook.key", Timeout: definition.Duration(30 * time.Minute)}
	}
}

// take returns what was asked since.
func (r *receiver) take() []promotions.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.requests
	r.requests = nil
	return all
}

// asking is a world whose stages ask the receiver.
func (r *receiver) asking(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, reconciletest.InMemory(t))
		w.workspace = r.workspace
		w.define(single(), r.asks)
		test(w)
	})
}

// A process that dies at any of its appends is replaced by another one: whoever is asked knows
// by the key what it was asked before, and each revision comes to each stage once.
func TestWhicheverProcessDiesAWebhookIsAskedForEachTryWithOneKey(t *testing.T) {
	r := newReceiver(t)
	deaths(t, 15, 1, func(t *testing.T, die func(deploylog.Log) deploylog.Log) {
		r.asking(t, func(w *world) {
			log := die(w.open())
			w.deploys("dev", "1")
			keys := map[string]promotions.Request{}
			answer := func() {
				for _, request := range r.take() {
					if before, known := keys[request.Key]; known {
						assert.Equal(t, before, request, "one key is of both")
					} else {
						w.deploys(request.Stage, request.Revision)
					}
					keys[request.Key] = request
				}
			}
			for w.untilIdleWith(log, answer) != nil {
				log = w.open() // the next process
			}
			assert.Len(t, keys, 2)
			w.finished("1", "staging", "prod")
		})
	})
}

// untilIdleWith runs a process until nothing more is to be done, or it dies, while somebody looks
// each second whether something was asked.
func (w *world) untilIdleWith(log deploylog.Log, answer func()) error {
	ended := make(chan error)
	go func() { ended <- w.untilIdle(log) }()
	for {
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Second):
			answer()
		}
	}
}

func TestAWebhookThatFailsIsAskedAgainAndItsAnswerIsNoPromotion(t *testing.T) {
	r := newReceiver(t)
	r.refusals = 1
	r.asking(t, func(w *world) {
		p := w.promotes("1")
		defer p.end()
		<-time.After(time.Minute)
		if got := r.take(); len(got) != 1 || got[0].Attempt != 2 || got[0].Revision != "1" || got[0].Stage != "staging" || got[0].Pipeline != "shop" {
			t.Fatalf("it was asked %+v", got)
		}
		if story := w.story(); !strings.Contains(story, `the answer was 503: not [31m now please`) && !strings.Contains(story, "503: not") || strings.Contains(story, "\x1b") {
			t.Errorf("the refusal is not in the log: %s", story)
		}
		if w.count(promotion.Triggered, "staging", "1") != 1 || !strings.Contains(w.story(), "202: job 7 has begun") || w.count(promotion.StageFinished, "staging", "") != 0 {
			t.Error("the answer is not in the log, or taken for the promotion")
		}
		<-time.After(31 * time.Minute) // nothing becomes of it
		if got := r.take(); len(got) != 1 || got[0].Attempt != 3 {
			t.Errorf("it was asked %+v", got)
		}
		w.deploys("staging", "1")
		<-time.After(time.Minute)
		assert.Equal(t, 1, w.count(promotion.StageFinished, "staging", "1"), "the promotion has not finished")
	})
}

func TestNothingIsAskedWithoutAKeyInTheWorkspace(t *testing.T) {
	r := newReceiver(t)
	outside := filepath.Join(t.TempDir(), "key")
	for name, place := range map[string]func(path string) error{
		"no file":                       func(string) error { return nil },
		"a short key":                   func(path string) error { return os.WriteFile(path, []byte("c2hvcnQ="), 0o600) },
		"an empty key":                  func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a directory":                   func(path string) error { return os.Mkdir(path, 0o700) },
		"a pipe to which nobody writes": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a link out of the workspace": func(path string) error {
			if err := os.WriteFile(outside, []byte(hookKey), 0o600); err != nil {
				return err
			}
			return os.Symlink(outside, path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r.workspace = t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(r.workspace, "secrets"), 0o700))
			require.NoError(t, place(filepath.Join(r.workspace, "secrets/hook.key")))
			r.asking(t, func(w *world) {
				p := w.promotes("1")
				defer p.end()
				<-time.After(5 * time.Second)
				if got := r.take(); len(got) > 0 || w.count(promotion.StageFailed, "staging", "1") != 1 || strings.Contains(w.story(), "c2hvcnQ") {
					t.Errorf("it was asked %+v", got)
				}
			})
		})
	}
}

// Whoever has the lock may be about to hold the stage, so nothing is asked meanwhile.
func TestNothingIsAskedThatIsHeldInBetween(t *testing.T) {
	for name, c := range map[string]promotion.Command{
		"held":    promotion.HoldStage{Stage: "staging", ID: "hold", By: "ada"},
		"stopped": promotion.StopLine{ID: "stop", By: "ada"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t)
			r.asking(t, func(w *world) {
				w.deploys("dev", "1")
				require.NoError(t, w.untilIdle(&overtaken{Log: w.open(), w: w, event: promotion.StageStarted, command: c}))
				if got := r.take(); len(got) > 0 || w.count(promotion.StageFailed, "staging", "1") != 1 || w.count(promotion.Triggered, "", "") > 0 || !strings.Contains(w.story(), name) {
					t.Errorf("it was asked %+v", got)
				}
			})
		})
	}
}

// Who is asked has until the timeout to answer with what then runs there, which is for what a
// process until it is idle waits.
func TestAProcessIsNotIdleWhileAWebhookIsAwaited(t *testing.T) {
	for name, takes := range map[string]time.Duration{"in time": 29 * time.Minute, "never": 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t)
			r.asking(t, func(w *world) {
				w.deploys("dev", "1")
				started, tries := time.Now(), 0
				due := map[time.Time]string{} // stages
				if err := w.untilIdleWith(w.open(), func() {
					for _, request := range r.take() {
						due[time.Now().Add(takes)] = request.Stage
						tries++
					}
					for at, stage := range due {
						if !time.Now().Before(at) {
							delete(due, at)
							w.deploys(stage, "1")
						}
					}
				}); err != nil {
					t.Fatal(err)
				}
				finished := w.count(promotion.RunFinished, "", "1")
				if took := time.Since(started); takes < time.Hour && (finished != 1 || tries != 2) || takes > time.Hour && (finished != 0 || tries != 3 || w.count(promotion.StageFailed, "staging", "1") != 3 || took > 2*time.Hour) {
					t.Errorf("after %s it is idle, was asked %d times, and\n%s", took, tries, w.story())
				}
			})
		})
	}
}
