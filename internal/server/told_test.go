package server_test

import (
	"strings"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/server"
)

// What a notification put aside is told again when somebody asks for it, once however often the
// request comes; and so is a token created, of which the server learns a hash alone.
func TestNotificationsAreToldAgainAndTokensCreatedOnce(t *testing.T) {
	log := logOf(t, 2)
	for i, e := range []deploylog.Event{
		{Deployment: "a", Target: "notification/team", Name: "notification-begun", Attempt: 1, Data: []byte(`{"version":1,"through":1}`)},
		{Deployment: "b", Target: "notification/team", Name: "notification-abandoned", Attempt: 1, Data: []byte(`{"version":1,"told":2,"through":2,"tries":6,"error":"503"}`)},
	} {
		if _, err := log.Append(t.Context(), e); err != nil {
			t.Fatal(i, err)
		}
	}
	_, url := newServer(t, log, func(o *server.Options) {})
	hash := strings.Repeat("0a", 32)
	for _, c := range []struct{ role, path, body, want string }{
		{"operator", "/v1/notifications/team/commands/retry", `{"event":2}`, "notification-retried"},
		{"admin", "/v1/tokens/ci/commands/create", `{"token":"01A","hash":"` + hash + `","role":"viewer"}`, "token-created"},
		{"admin", "/v1/tokens/ci/commands/revoke", `{}`, "token-revoked"},
	} {
		var first string
		for n := range 3 {
			status, _, said := ask(t, "POST", url+c.path, c.role, c.body, "Idempotency-Key", "k"+c.path)
			if status != 200 || !strings.Contains(said, c.want) || strings.Contains(said, "01A_") {
				t.Fatalf("%s: %d %s", c.path, status, said)
			}
			if n == 0 {
				first = said
			}
			if said != first {
				t.Errorf("%s sent again is answered %s, and not %s", c.path, said, first)
			}
		}
		if status, _, said := ask(t, "POST", url+c.path, c.role, c.body); c.want != "token-created" && status < 400 {
			t.Errorf("%s a second time: %d %s", c.path, status, said)
		}
	}
	for path, want := range map[string]int{
		"/v1/notifications/team/commands/retry": 404, "/v1/notifications/nobody/commands/retry": 404, "/v1/tokens/ci/commands/revoke": 409,
	} {
		if status, _, said := ask(t, "POST", url+path, "admin", `{}`); status != want {
			t.Errorf("%s: %d, want %d: %s", path, status, want, said)
		}
	}
	for _, body := range []string{`{"token":"01A","hash":"` + hash + `","role":"viewer"}`, `{"token":"01B","role":"viewer"}`, `{"token":"01B","hash":"` + hash + `","role":"root"}`, `{"token":"01B","hash":"` + hash + `","role":"viewer","secret":"x"}`, `[]`, `{`} {
		if status, _, said := ask(t, "POST", url+"/v1/tokens/more/commands/create", "admin", body); status != 409 && status != 422 {
			t.Errorf("%s: %d %s", body, status, said)
		}
	}
}
