package kubetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/internal/waittest"
)

// Until looks again and again until what is waited for is so. What a look saw last is told when it
// never is. What is an object of the API is waited for with Await.
func Until(t testing.TB, what string, look func() (saw string, is bool)) {
	t.Helper()
	late := time.After(waittest.Limit)
	looks := time.NewTicker(20 * time.Millisecond)
	defer looks.Stop()
	for {
		saw, is := look()
		if is {
			return
		}
		select {
		case <-looks.C:
		case <-late:
			t.Fatalf("waited %s for this: %s; it is this now: %s", waittest.Limit, what, saw)
		}
	}
}

// Await returns an object once it is as asked for. Its path is that of the API, and it is watched.
func Await[T any](t testing.TB, c *Cluster, path, what string, is func(T) bool) T {
	t.Helper()
	var found T
	c.follow(t, path, what, func(change string, object json.RawMessage) (bool, error) {
		var zero T
		found = zero
		if change == "DELETED" {
			return false, nil
		}
		err := json.Unmarshal(object, &found)
		return err == nil && is(found), err
	})
	return found
}

// AwaitGone waits until an object is not there any more, also at the end of a test.
func AwaitGone(t testing.TB, c *Cluster, path string) {
	t.Helper()
	Until(t, path+" is gone", func() (string, bool) {
		said, err := c.ask(http.MethodGet, path, nil)
		return fmt.Sprintf("%s %v", said, err), err != nil && strings.Contains(err.Error(), "404 Not Found")
	})
}

// follow watches one object until a change is the one that is waited for. API servers end watches,
// and may be started anew in between: the next watch begins with the object as it is.
func (c *Cluster) follow(t testing.TB, object, what string, until func(change string, object json.RawMessage) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waittest.Limit)
	defer cancel()
	var last json.RawMessage
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		is, err := c.watch(ctx, object, func(change string, object json.RawMessage) (bool, error) {
			last = object
			return until(change, object)
		})
		if is {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("waited %s for this: %s; %s is this now: %s (%v)", waittest.Limit, what, object, last, err)
		}
	}
}

func (c *Cluster) watch(ctx context.Context, object string, until func(change string, object json.RawMessage) (bool, error)) (bool, error) {
	all, name := path.Split(object)
	response, err := c.request(ctx, http.MethodGet, path.Clean(all)+"?watch=true&fieldSelector=metadata.name%3D"+name, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }()
	events := json.NewDecoder(response.Body)
	for {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		switch err := events.Decode(&event); {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		case event.Type == "ERROR":
			return false, fmt.Errorf("watch %s: %s", object, event.Object)
		}
		if is, err := until(event.Type, event.Object); is || err != nil {
			return is, err
		}
	}
}
