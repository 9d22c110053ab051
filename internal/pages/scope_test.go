package pages_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/internal/server"
	"github.com/deployster-go/deployster/pipeline"
)

// secluded is in every name, revision and text that a limited viewer must not see.
const secluded = "secluded"

// others is a site with the pipeline gateway and the environment shop/prod, beside which there is something else of
// everything. It returns the digest of an object, too.
func others(t *testing.T) (s *site, digest string) {
	s = newSite(t, querytest.Large(8, 13)...)
	ctx := t.Context()
	d := querytest.Definition()
	d.Name = "secluded-one"
	all := pipelines.New(s.log, s.now)
	must.Get(all.Command(ctx, d.Name, pipeline.Define{Definition: d, ID: "define secluded", By: "ada"}))(t)
	must.Get(all.Command(ctx, d.Name, pipeline.PausePipeline{ID: "pause secluded", By: "secluded-person", Reason: "secluded-reason"}))(t)
	require.NoError(t, querytest.Deploy(ctx, s.log, s.now, "secluded-env", "secluded-version"))
	groups := querytest.NewGroups(ctx, s.log, s.now, 1)
	require.NoError(t, groups.Submit(record.Triggered{Name: "secluded-group"}, querytest.Chain("secluded-job")...))
	must.Get(s.log.Append(ctx, deploylog.Event{Deployment: "secluded-run", Target: "run/secluded.yaml", Name: "run-started", Attempt: 1}))(t)
	text := "secluded-text"
	digest = fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	code, _ := s.call(http.MethodPut, "/v1/objects/"+digest, s.token(identity.Operator), text)
	require.Equal(t, http.StatusNoContent, code)
	return s, digest
}

// limited is the token of a viewer of some pipelines and environments.
func (s *site) limited(name string, pipelines, environments []string) string {
	secret, _, err := s.tokens.Create(s.Context(), identity.New{
		Name: name, ID: s.id(), Grant: identity.Grant{Role: identity.Viewer, Pipelines: pipelines, Environments: environments}, By: "ada",
	})
	require.NoError(s, err)
	return secret
}

// call sends a request, and returns the code and all that is answered.
func (s *site) call(method, path, token, body string) (code int, answered string) {
	r := must.Get(http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(body)))(s)
	r.Header.Set("Authorization", "Bearer "+token)
	answer := must.Get(http.DefaultTransport.RoundTrip(r))(s)
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(s)
	var header strings.Builder
	require.NoError(s, answer.Header.Write(&header))
	return answer.StatusCode, header.String() + string(text)
}

// routes are all paths of the API and all pages, with the names of what there is.
func routes(digest string) (all [][2]string) {
	const query = "?target=pipeline/secluded-one&outcome=failed&name=secluded-one&program=x&revision=secluded-version&pipeline=secluded-one"
	names := []string{"gateway", "secluded-one", "secluded-on", "shop/prod", "secluded-env", "secluded-group-1"}
	for _, op := range server.New(server.Options{}).Operations() {
		for _, name := range names {
			path := strings.NewReplacer("{name}", url.PathEscape(name), "{job}", "1", "{digest}", digest, "{run}", "secluded-run").Replace(op.Path)
			all = append(all, [2]string{op.Method, path}, [2]string{op.Method, path + query})
			if !strings.Contains(op.Path, "{name}") {
				break
			}
		}
	}
	for _, path := range paths {
		all = append(all, [2]string{http.MethodGet, path})
	}
	for _, path := range []string{
		"/?q=s", "/?at=1", "/pipelines/secluded-one", "/pipelines/secluded-on", "/pipelines/secluded-one/diff", "/environments/secluded-env", "/environments/secluded-env/diff?before=1&after=2",
		"/environments/secluded-en", "/runs/secluded-run", "/builds/secluded-group-1", "/builds/secluded-group-1/1", "/trace?revision=secluded-version", "/log?target=pipeline/secluded-one", "/nothing",
	} {
		all = append(all, [2]string{http.MethodGet, path})
	}
	return all
}

// No route answers a viewer of some pipelines and environments with anything of others.
func TestAViewerOfSomeReadsNothingOfOthers(t *testing.T) {
	s, digest := others(t)
	for name, c := range map[string]struct {
		pipelines, environments []string
		never                   []string // beside what is secluded
		reads                   []string
	}{
		"a pipeline":      {[]string{"gateway", "hiden-one"}, nil, []string{"shop/prod", "web-h1"}, []string{"/v1/pipelines/gateway", "/pipelines/gateway", "/v1/pipelines", "/", "/approvals", "/v1/events", "/v1/log/latest?target=pipeline/gateway&outcome=failed"}},
		"an environment":  {nil, []string{"shop/prod"}, []string{"wave0", "stage-approved"}, []string{"/v1/environments/shop%2Fprod", "/environments/shop%2Fprod", "/v1/environments/shop%2Fprod/hosts", "/v1/environments", "/"}},
		"none of what is": {[]string{"gone"}, nil, []string{"shop/prod", "web-h1", "wave0"}, []string{"/v1/pipelines", "/", "/v1/log", "/v1/openapi.json", "/v1/log/heartbeats"}},
	} {
		t.Run(name, func(t *testing.T) {
			token := s.limited(strings.ReplaceAll(name, " ", "-"), c.pipelines, c.environments)
			for _, route := range routes(digest) {
				code, text := s.call(route[0], route[1], token, "{}")
				assert.NotEqual(t, http.StatusInternalServerError, code, "%v", route)
				for _, word := range append([]string{secluded}, c.never...) {
					assert.NotContains(t, text, word, "%v answers %d with something of others", route, code)
				}
			}
			for _, path := range c.reads {
				code, text := s.call(http.MethodGet, path, token, "")
				assert.Equal(t, http.StatusOK, code, "%s: %.300s", path, text)
			}
		})
	}
	// Else the test could not fail.
	all, seen := s.token(identity.Viewer), 0
	for _, route := range routes(digest) {
		if code, text := s.call(route[0], route[1], all, "{}"); code == http.StatusOK && strings.Contains(text, secluded) {
			seen++
		}
	}
	assert.Greater(t, seen, 25, "routes that answer with something of others to who reads all")
}

// A stream has the events of what its reader may read, and no others.
func TestAStreamLeavesOutWhatItsReaderMayNotRead(t *testing.T) {
	s, _ := others(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/events?follow=true", nil))(t)
	r.Header.Set("Authorization", "Bearer "+s.limited("reader", []string{"gateway"}, nil))
	answer := must.Get(http.DefaultTransport.RoundTrip(r))(t)
	defer answer.Body.Close()
	all, events := pipelines.New(s.log, s.now), 0
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		assert.NotContains(t, lines.Text(), secluded)
		if strings.Contains(lines.Text(), `"event"`) {
			events++
		}
		if events == 1 {
			events++
			must.Get(all.Command(ctx, "secluded-one", pipeline.ResumePipeline{ID: "resume secluded", By: "ada"}))(t)
			must.Get(all.Command(ctx, "gateway", pipeline.PausePipeline{ID: "pause last", By: "ada", Reason: "the last"}))(t)
		}
		if strings.Contains(lines.Text(), "the last") {
			return
		}
	}
	t.Error("the stream has ended before its last event")
}
