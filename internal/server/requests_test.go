package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/server"
)

// commanded is how many events of a pipeline say that it was paused or resumed.
func (s *shop) commanded(names ...string) (n int) {
	s.Helper()
	for _, name := range names {
		for _, err := range s.log.Read(context.Background(), deploylog.Filter{Name: name}) {
			require.NoError(s, err)
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
	s.send(200, "", "operator", "shop", "create", create)
	deploys := func(url, who, key, sent string) (int, string) {
		t.Helper()
		status, _, said := ask(t, "POST", url+"/v1/environments/shop/commands/deploy", who, sent, "Idempotency-Key", key)
		return status, said
	}
	status, first := deploys(s.url, "operator", "k1", `{"revision":1}`)
	answers(t, 200, "environment-started")(status, first)
	_, other := newServer(t, s.log, func(o *server.Options) { o.Objects = s.store })
	for _, url := range []string{s.url, other, other} {
		answers(t, 200, first)(deploys(url, "operator", "k1", `{"revision":1}`))
	}
	assert.Equal(t, 1, s.commanded("environment-started"), "it is deployed")
	answers(t, 422, "")(deploys(s.url, "operator", "k1", `{"revision":1,"reason":"another"}`))
	assert.Equal(t, 1, s.commanded("environment-started"), "a key of another request")
	// The key of somebody else is another one.
	status, again := deploys(s.url, "admin", "k1", `{"revision":1}`)
	assert.Equal(t, 200, status)
	assert.NotEqual(t, first, again)
	answers(t, 403, "")(deploys(s.url, "viewer", "k1", `{"revision":1}`))
}

// What is refused is not remembered: it may be possible later.
func TestARefusedRequestMayBeSentAgain(t *testing.T) {
	s := newShop(t)
	s.send(200, "", "operator", "shop", "create", body{"definition": s.definition("shop", "resources: {}")})
	pause := func() int {
		status, _, _ := ask(t, "POST", s.url+"/v1/environments/shop/commands/pause", "operator", `{}`, "Idempotency-Key", "k")
		return status
	}
	assert.Equal(t, 409, pause(), "what is not deployed is paused")
	s.send(200, "", "operator", "shop", "deploy", body{"revision": 1})
	for range 2 { // the second time it would be refused, if it were another request
		assert.Equal(t, 200, pause())
	}
}

// Who sends a request twice at once, to two servers, has it done once.
func TestARequestThatIsSentTwiceAtOnceIsDoneOnce(t *testing.T) {
	s := newShop(t)
	s.send(200, "", "operator", "shop", "create", body{"definition": s.definition("shop", "resources: {}")})
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
	assert.Equal(t, 1, s.commanded("environment-started"), "it is deployed")
}

// A day later the key is nobody's.
func TestAKeyIsForgotten(t *testing.T) {
	s := newShop(t)
	var later time.Duration
	_, url := newServer(t, s.log, func(o *server.Options) {
		o.Objects, o.Now = s.store, func() time.Time { return time.Now().Add(later) }
	})
	s.send(200, "", "operator", "shop", "create", body{"definition": s.definition("shop", "resources: {}")})
	for range 2 {
		expect(t, 200, "", "POST", s.url+"/v1/environments/shop/commands/deploy", "operator", `{"revision":1}`, "Idempotency-Key", "k")
	}
	later = 25 * time.Hour
	expect(t, 200, "", "POST", url+"/v1/environments/shop/commands/pause", "operator", `{}`, "Idempotency-Key", "k")
}
