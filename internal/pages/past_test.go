package pages_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
)

// stalled takes nothing of a page until it is told to.
type stalled struct {
	*httptest.ResponseRecorder
	writing chan<- bool
	take    <-chan struct{}
}

func (s stalled) Write(text []byte) (int, error) {
	s.writing <- true
	<-s.take
	return s.ResponseRecorder.Write(text)
}

// Few fold the past at once; who takes its page slowly is not one of them any more.
func TestWhoTakesAPageSlowlyKeepsNobodyFromThePast(t *testing.T) {
	s := newSite(t, deploylog.Event{Deployment: "d", Target: "run/web.yaml", Name: "run-started", Attempt: 1})
	token := s.token(identity.Viewer)
	ask := func(w http.ResponseWriter) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/?at=1", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		s.pages.ServeHTTP(w, r)
	}
	const slow = 5
	writing, take := make(chan bool, slow), make(chan struct{})
	var all sync.WaitGroup
	answers := make([]*httptest.ResponseRecorder, slow)
	for i := range answers {
		answers[i] = httptest.NewRecorder()
		all.Go(func() { ask(stalled{answers[i], writing, take}) })
	}
	for range slow {
		select {
		case <-writing:
		case <-time.After(time.Minute):
			t.Error("a page of the past waits for who takes another one")
		}
	}
	got := httptest.NewRecorder()
	ask(got)
	if got.Code != http.StatusOK {
		t.Errorf("a page of the past: %d", got.Code)
	}
	close(take)
	all.Wait()
	for i, slow := range answers {
		if slow.Code != http.StatusOK { // as after the time that a page has
			t.Errorf("page %d of those that are taken slowly: %d", i, slow.Code)
		}
	}
}
