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

// poisoned is a log to which nothing can be written.
type poisoned struct {
	deploylog.Log
	err error
}

func (p poisoned) Append(context.Context, ...deploylog.Event) ([]deploylog.Event, error) {
	return nil, p.err
}

// Whoever has a server run learns that its log takes nothing any more, so that another one is
// started: by the write that fails already. Who asked for that one is told that it may be there.
func TestALogThatTakesNothingAnyMoreIsTold(t *testing.T) {
	for _, tc := range []struct {
		err  error
		says string
	}{{deploylog.ErrUnwritten, "look whether this was recorded"}, {deploylog.ErrPoisoned, "its disk is full"}} {
		told := make(chan error, 10)
		_, url := newServer(t, poisoned{inFile(t, 1), tc.err}, func(o *server.Options) { o.Failed = func(err error) { told <- err } })
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/pipelines/p0/commands/pause", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer operator")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), tc.says) {
			t.Errorf("%v: it is answered %d %s", tc.err, answer.StatusCode, text)
		}
		select {
		case err := <-told:
			if !errors.Is(err, tc.err) {
				t.Errorf("%v is told, not %v", err, tc.err)
			}
		default:
			t.Errorf("%v: nobody is told", tc.err)
		}
	}
}
