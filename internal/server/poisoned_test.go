package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/server"
)

// poisoned is a log to which something could not be written.
type poisoned struct{ deploylog.Log }

func (poisoned) Append(context.Context, ...deploylog.Event) ([]deploylog.Event, error) {
	return nil, deploylog.ErrPoisoned
}

// Whoever has a server run learns that its log takes nothing any more, so that another one is
// started.
func TestALogThatTakesNothingAnyMoreIsTold(t *testing.T) {
	told := make(chan error, 10)
	_, url := newServer(t, poisoned{inFile(t, 1)}, func(o *server.Options) { o.Failed = func(err error) { told <- err } })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/pipelines/p0/commands/pause", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer operator")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "its disk is full") {
		t.Errorf("it is answered %d %s", answer.StatusCode, text)
	}
	select {
	case err := <-told:
		if !errors.Is(err, deploylog.ErrPoisoned) {
			t.Errorf("%v is told", err)
		}
	default:
		t.Error("nobody is told")
	}
}
