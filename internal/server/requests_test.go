package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/server"
)

// commanded is how many events of a pipeline say that it was paused or resumed.
func (s *shop) commanded(names ...string) (n int) {
	s.Helper()
	for _, name := range names {
		for _, err := range s.log.Read(context.Background(), deploylog.Filter{Name: name}) {
			if err != nil {
				s.Fatal(err)
			}
			n++
		}
	}
	return n
}

// A request that is sent again with its key is done once, and answered as it was: by the same
// server, by another one of the log, and by one that was started since.
func TestARequestWithAKeyIsDoneOnce(t *testing.T) {
	s := newShop(t)
	create := body{"definition": s.definition("shop", "resources: {}")}
	if status, said := s.send("operator", "shop", "create", create); status != 200 {
		t.Fatal(said)
	}
	post := func(url, who, key, sent string) (int, string) {
		t.Helper()
		status, _, said := ask(t, "POST", url+"/v1/environments/shop/commands/deploy", who, sent, "Idempotency-Key", key)
		return status, said
	}
	status, first := post(s.url, "operator", "k1", `{"revision":1}`)
	if status != 200 || !strings.Contains(first, "environment-started") {
		t.Fatal(status, first)
	}
	_, other := newServer(t, s.log, func(o *server.Options) { o.Objects = s.store })
	for _, url := range []string{s.url, other, other} {
		if status, again := post(url, "operator", "k1", `{"revision":1}`); status != 200 || again != first {
			t.Errorf("sent again, it is answered %d %s, and not %s", status, again, first)
		}
	}
	if n := s.commanded("environment-started"); n != 1 {
		t.Errorf("it is deployed %d times", n)
	}
	if status, said := post(s.url, "operator", "k1", `{"revision":1,"reason":"another"}`); status != 422 || s.commanded("environment-started") != 1 {
		t.Errorf("a key of another request: %d %s", status, said)
	}
	// The key of somebody else is another one.
	if status, again := post(s.url, "admin", "k1", `{"revision":1}`); status != 200 || again == first {
		t.Errorf("%d %s", status, again)
	}
	if status, said := post(s.url, "viewer", "k1", `{"revision":1}`); status != 403 {
		t.Errorf("%d %s", status, said)
	}
}

// What is refused is not remembered: it may be possible later.
func TestARefusedRequestMayBeSentAgain(t *testing.T) {
	s := newShop(t)
	if status, said := s.send("operator", "shop", "create", body{"definition": s.definition("shop", "resources: {}")}); status != 200 {
		t.Fatal(said)
	}
	pause := func() int {
		status, _, _ := ask(t, "POST", s.url+"/v1/environments/shop/commands/pause", "operator", `{}`, "Idempotency-Key", "k")
		return status
	}
	if status := pause(); status != 409 {
		t.Errorf("what is not deployed is paused: %d", status)
	}
	if status, said := s.send("operator", "shop", "deploy", body{"revision": 1}); status != 200 {
		t.Fatal(said)
	}
	for range 2 { // the second time it would be refused, if it were another request
		if status := pause(); status != 200 {
			t.Errorf("%d", status)
		}
	}
}

// Who sends a request twice at once, to two servers, has it done once.
func TestARequestThatIsSentTwiceAtOnceIsDoneOnce(t *testing.T) {
	s := newShop(t)
	if status, said := s.send("operator", "shop", "create", body{"definition": s.definition("shop", "resources: {}")}); status != 200 {
		t.Fatal(said)
	}
	_, other := newServer(t, s.log, func(o *server.Options) { o.Objects, o.Hosts = s.store, s.hosts })
	var sending sync.WaitGroup
	answers := make([]string, 8)
	for i := range answers {
		sending.Go(func() {
			url := []string{s.url, other}[i%2]
			status, _, said := ask(t, "POST", url+"/v1/environments/shop/commands/deploy", "operator", `{"revision":1}`, "Idempotency-Key", "k")
			answers[i] = fmt.Sprint(status, said)
		})
	}
	sending.Wait()
	for _, said := range answers {
		if said != answers[0] || !strings.HasPrefix(said, "200") {
			t.Errorf("%s\nand\n%s", said, answers[0])
		}
	}
	if n := s.commanded("environment-started"); n != 1 {
		t.Errorf("it is deployed %d times", n)
	}
}

// A day later the key is nobody's.
func TestAKeyIsForgotten(t *testing.T) {
	s := newShop(t)
	var later time.Duration
	_, url := newServer(t, s.log, func(o *server.Options) {
		o.Objects, o.Now = s.store, func() time.Time { return time.Now().Add(later) }
	})
	if status, said := s.send("operator", "shop", "create", body{"definition": s.definition("shop", "resources: {}")}); status != 200 {
		t.Fatal(said)
	}
	for range 2 {
		if status, _, said := ask(t, "POST", s.url+"/v1/environments/shop/commands/deploy", "operator", `{"revision":1}`, "Idempotency-Key", "k"); status != 200 {
			t.Errorf("%d %s", status, said)
		}
	}
	later = 25 * time.Hour
	if status, _, said := ask(t, "POST", url+"/v1/environments/shop/commands/pause", "operator", `{}`, "Idempotency-Key", "k"); status != 200 {
		t.Errorf("%d %s", status, said)
	}
}
