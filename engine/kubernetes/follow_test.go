package kubernetes

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refused is the error of a request while no API server listens.
var refused = &net.OpError{Op: "dial", Net: "tcp", Err: unix.ECONNREFUSED}

// However long a Pod was followed, its API server may be started anew.
func TestWhoFollowsAPodWaitsForItsAPIServer(t *testing.T) {
	for name, c := range map[string]struct {
		down time.Duration
		ends bool
	}{"it comes back": {restartTimeout / 2, true}, "it is gone for longer": {2 * restartTimeout, false}} {
		synctest.Test(t, func(t *testing.T) {
			begun, lives := time.Now(), 10*time.Minute
			e := onServer(t, func(request string) (int, any) {
				switch at := time.Since(begun); {
				case request == "watch":
					return http.StatusOK, lasting(lives)
				case at < lives:
					return http.StatusOK, aPod(corev1.PodStatus{Phase: corev1.PodRunning})
				case at < lives+c.down:
					return 0, refused
				}
				return http.StatusOK, aPod(corev1.PodStatus{Phase: corev1.PodSucceeded})
			})
			_, err := e.follow(t.Context(), "one", over)
			took := time.Since(begun) - lives
			if (err == nil) != c.ends || err != nil && !errors.Is(err, unix.ECONNREFUSED) || took > min(c.down, restartTimeout)+2*mostPause {
				t.Errorf("%s: after %s: %v", name, took, err)
			}
		})
	}
}

// An API server that ends each watch is not asked as often as it can answer.
func TestAnAPIServerThatEndsWatchesIsLeftAlone(t *testing.T) {
	for name, lasts := range map[string]time.Duration{"at once": 0, "after a second": time.Second} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			e := onServer(t, func(request string) (int, any) {
				if asked++; request == "watch" {
					return http.StatusOK, lasting(lasts)
				}
				return http.StatusOK, aPod(corev1.PodStatus{Phase: corev1.PodRunning})
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := e.follow(ctx, "one", over); !errors.Is(err, context.DeadlineExceeded) || asked > 50 {
				t.Errorf("%s: it was asked %d times in a minute; %v", name, asked, err)
			}
		})
	}
}

// What is to be removed is, also where the API server is started anew at that moment.
func TestAPodIsRemovedOnceTheAPIServerIsBack(t *testing.T) {
	for name, c := range map[string]struct {
		lost    error // what requests get while it is not there
		down    time.Duration
		removed bool
	}{
		"it refuses connections":         {refused, restartTimeout / 2, true},
		"it breaks connections off":      {io.EOF, restartTimeout / 2, true},
		"it is off":                      {refused, time.Hour, false},
		"whoever asks may not remove it": {nil, time.Hour, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun, removed := time.Now(), false
			e := onServer(t, func(request string) (int, any) {
				switch {
				case time.Since(begun) < c.down && c.lost != nil:
					return 0, c.lost
				case c.lost == nil:
					return refusal(http.StatusForbidden, metav1.StatusReasonForbidden)
				case removed:
					return refusal(http.StatusNotFound, metav1.StatusReasonNotFound)
				}
				removed = request == "DELETE one"
				return http.StatusOK, aPod(corev1.PodStatus{Phase: corev1.PodRunning})
			})
			e.discard(t.Context(), "one", false)
			if took := time.Since(begun); removed != c.removed || took > gracePeriod || c.lost == nil && took > 0 {
				t.Errorf("%s: after %s it is %t that it is removed", name, took, removed)
			}
		})
	}
}

// A Pod that is made, and of which the API server could not say so any more, is not left behind.
func TestAPodIsRemovedWhoseCreationIsNotConfirmed(t *testing.T) {
	for name, c := range map[string]struct {
		answer func() (int, any)
		made   bool
	}{
		"the answer is lost":   {func() (int, any) { return 0, io.ErrUnexpectedEOF }, true},
		"the answer is no Pod": {func() (int, any) { return http.StatusCreated, "<html>" }, true},
		"its storage is late":  {func() (int, any) { return refusal(http.StatusInternalServerError, metav1.StatusReasonInternalError) }, true},
		"nobody was asked":     {func() (int, any) { return 0, refused }, false},
		"its name is there":    {func() (int, any) { return refusal(http.StatusConflict, metav1.StatusReasonAlreadyExists) }, true},
		"it is refused":        {func() (int, any) { return refusal(http.StatusForbidden, metav1.StatusReasonForbidden) }, false},
		"it is there":          {func() (int, any) { return http.StatusCreated, aPod(corev1.PodStatus{}) }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			removals := 0
			e := onServer(t, func(request string) (int, any) {
				switch {
				case request == http.MethodPost:
					return c.answer()
				case request == "DELETE one" && removals == 0:
					removals++
					return http.StatusOK, aPod(corev1.PodStatus{})
				}
				return refusal(http.StatusNotFound, metav1.StatusReasonNotFound)
			})
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // also where the run was cancelled
			_, err := e.create(ctx, aPod(corev1.PodStatus{}))
			if (removals > 0) != c.made || (err == nil) != (name == "it is there") || apierrors.IsNotFound(err) {
				t.Errorf("%s: %d removals, %v", name, removals, err)
			}
		})
	}
}

// An API server that counts Pods for a quota, of which several come at once, refuses some of them with
// a conflict. None of these was made.
func TestAPodIsMadeAgainThatAQuotaCouldNotCount(t *testing.T) {
	for name, c := range map[string]struct{ conflicts, requests int }{"twice": {2, 3}, "for long": {1000, 20}} {
		synctest.Test(t, func(t *testing.T) {
			requests := 0
			e := onServer(t, func(request string) (int, any) {
				assert.Equal(t, http.MethodPost, request, "%s: %s", name, request)
				if requests++; requests <= c.conflicts {
					return refusal(http.StatusConflict, metav1.StatusReasonConflict)
				}
				return http.StatusCreated, aPod(corev1.PodStatus{})
			})
			begun := time.Now()
			_, err := e.create(t.Context(), aPod(corev1.PodStatus{}))
			if (err == nil) != (c.conflicts < c.requests) || requests < min(c.requests, 3) || time.Since(begun) > time.Minute {
				t.Errorf("%s: %v after %d requests and %s", name, err, requests, time.Since(begun))
			}
		})
	}
}
