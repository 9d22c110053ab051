package server_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/server"
)

// What readers of JSON take for different things is refused, in commands and in all other bodies.
func TestABodyMeansOneThing(t *testing.T) {
	_, url := newServer(t, logOf(t, 1))
	for body, want := range map[string]string{
		`{"revision":"1","revision":"2"}`: `the member \"revision\" is there twice`,
		`{"Revision":"1"}`:                `the member \"Revision\" is written \"revision\"`,
		`{"revision":"\ud800"}`:           `the member \"revision\" has half of a surrogate pair`,
		`{"revision":7}`:                  `the member \"revision\" must be a string`,
	} {
		expect(t, 422, want, "POST", url+"/v1/pipelines/web/commands/skip", "operator", body)
	}
	for body, want := range map[string]string{
		`{"files":{"a":"","a":""}}`: `the member \"files.a\" is there twice`,
		`{"Files":{}}`:              `body.Files`,
		`{"files":{"a":"\udfff"}}`:  `half of a surrogate pair`,
	} {
		status, _, said := ask(t, "POST", url+"/v1/runs", "operator", body)
		assert.True(t, status == 422 || status == 400, "%d: %s", status, said)
		assert.Contains(t, said, want)
		assert.NotContains(t, said, "Go ")
	}
	for kind, want := range map[string]int{
		"": 404, "application/json": 404, "application/json; charset=UTF-8": 404,
		"text/plain": 415, "application/x-www-form-urlencoded": 415, "application/json; charset=utf-16": 415, "application/cbor": 415, "?": 415,
	} {
		var header []string
		if kind != "" {
			header = []string{"Content-Type", kind}
		}
		says := "application/json"
		if want == 404 {
			says = ""
		}
		expect(t, want, says, "POST", url+"/v1/pipelines/web/commands/skip", "operator", `{"revision":"1"}`, header...)
	}
}

// With the salt, whoever reads hashes of secrets can try guesses, also of what is not theirs.
func TestTheSaltIsForThoseWhoOperateEverything(t *testing.T) {
	_, url := newServer(t, logOf(t, 1), func(o *server.Options) {
		o.Identify = func(r *http.Request) (identity.Identity, error) {
			grant := identity.Grant{Role: identity.Operator}
			if r.Header.Get("Authorization") == "Bearer scoped" {
				grant.Pipelines = []string{"web"}
			}
			return identity.Identity{Name: "ci", Grants: []identity.Grant{grant}}, nil
		}
	})
	expect(t, 403, "role operator for everything", "POST", url+"/v1/salt", "scoped", "")
	expect(t, 200, `"salt"`, "POST", url+"/v1/salt", "all", "")
}
