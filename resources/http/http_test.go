package http

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/protocoltest"
	"github.com/deployster-go/deployster/resources/internal/typetest"
)

type object = map[string]any

func serve(t *testing.T, h nethttp.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func resource(config any) typetest.Resource {
	return typetest.Resource{Type: Type(), Name: "smoke", Config: config}
}

func TestValidAnswer(t *testing.T) {
	url := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Set-Cookie", "session=secret")
		w.WriteHeader(201)
		fmt.Fprintf(w, `{"method":%q,"token":%q,"body":%q,"count":3}`, r.Method, r.Header.Get("X-Token"), body)
	})
	state := resource(object{
		"url": url, "method": "POST", "headers": object{"X-Token": "t"}, "body": "hi",
		"expect": object{
			"status": []int{200, 201}, "body_contains": `"count":3`, "body_matches": `count":\d}`,
			"json":    object{"method": "POST", "token": "t", "body": "hi", "count": 3.0},
			"headers": object{"content-type": "application/json"},
		},
	}).Valid(t)
	if state["status"] != int64(201) || state["json"].(object)["count"] != int64(3) || !strings.HasPrefix(state["body"].(string), `{"method"`) {
		t.Errorf("state: %v", state)
	}
	headers := state["headers"].(object)
	assert.True(t, headers["Content-Type"] == "application/json" && headers["Set-Cookie"] == nil && headers["Date"] == nil,
		"headers: %v", headers)
}

func TestTwoLooksAtTheSameThingAreEqual(t *testing.T) {
	url := serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		w.Header().Set("X-Request-Id", rand.Text())
		w.Header().Set("X-Version", "3")
		w.Header().Set("Location", "/new")
		fmt.Fprint(w, "ok")
	})
	r := resource(object{"url": url, "expect": object{"headers": object{"x-version": "3"}}})
	_, first, _ := r.Invoke(t, nil, "state")
	_, second, _ := r.Invoke(t, nil, "state")
	assert.Equal(t, second, first)
	want := object{"Content-Type": "text/plain; charset=utf-8", "Location": "/new", "X-Version": "3"}
	headers := r.Valid(t)["headers"].(object)
	assert.True(t, maps.Equal(headers, want), "headers: %v", headers)
}

func TestAnswersThatAreNotAsDescribed(t *testing.T) {
	url := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		switch r.URL.Path {
		case "/down":
			w.WriteHeader(503)
		case "/loop":
			nethttp.Redirect(w, r, "/loop", nethttp.StatusFound)
		case "/hop":
			nethttp.Redirect(w, r, "/", nethttp.StatusFound)
		default:
			w.Header().Set("X-Colour", "blue")
			fmt.Fprint(w, `{"a":{"b":[1,2]},"big":9007199254740993}`)
		}
	})
	for name, tc := range map[string]struct {
		path   string
		expect object
		want   string // "" when it is as described
	}{
		"as is":                      {"/", nil, ""},
		"a redirect is followed":     {"/hop", nil, ""},
		"status":                     {"/down", nil, "status 503"},
		"status that is asked for":   {"/down", object{"status": 503}, ""},
		"another status":             {"/", object{"status": 204}, "status 200"},
		"too many redirects":         {"/loop", nil, "it redirects more than 10 times"},
		"text":                       {"/", object{"body_contains": "zzz"}, `the body does not contain "zzz"`},
		"pattern":                    {"/", object{"body_matches": "^z"}, "the body does not match ^z"},
		"header":                     {"/", object{"headers": object{"X-Colour": "red"}}, `header X-Colour is "blue", not "red"`},
		"part of the JSON":           {"/", object{"json": object{"a": object{}}}, ""},
		"a number by value":          {"/", object{"json": object{"a": object{"b": []any{1.0, 2}}}}, ""},
		"another number":             {"/", object{"json": object{"a": object{"b": []any{1, 3}}}}, "json.a.b[1] is 2"},
		"a list of another length":   {"/", object{"json": object{"a": object{"b": []any{1}}}}, "json.a.b is not a list of 1"},
		"a missing member":           {"/", object{"json": object{"c": nil}}, `json has no "c"`},
		"another kind":               {"/", object{"json": []any{}}, "json is not a list of 0"},
		"an integer beyond floats":   {"/", object{"json": object{"big": 9007199254740992}}, "json.big is 9007199254740993"},
		"null is not what was asked": {"/", object{"json": nil}, `json is {"a"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := resource(object{"url": url + tc.path, "expect": tc.expect})
			if tc.want == "" {
				r.Valid(t)
				return
			}
			stale := r.Stale(t, "wait")
			assert.Contains(t, stale.Actions[0].Description, tc.want)
		})
	}
}

func TestNobodyAnswers(t *testing.T) {
	s := httptest.NewServer(nethttp.NotFoundHandler())
	url := s.URL
	s.Close()
	stale := resource(object{"url": url}).Stale(t, "wait")
	assert.True(t, stale.StaleState == nil && strings.Contains(stale.Actions[0].Description, "connection refused"), "%+v", stale)
}

// What is said of one and the same failure is the same each time.
func TestTheLocalPortIsNotTold(t *testing.T) {
	url := serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		connection, _, err := w.(nethttp.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if err := errors.Join(connection.(*net.TCPConn).SetLinger(0), connection.Close()); err != nil { // a reset
			t.Error(err)
		}
	})
	first, second := resource(object{"url": url}).Stale(t, "wait"), resource(object{"url": url}).Stale(t, "wait")
	said := first.Actions[0].Description
	assert.True(t, said == second.Actions[0].Description && strings.Contains(said, "connection reset") && !strings.Contains(said, "->"),
		"%s\n%s", said, second.Actions[0].Description)
}

func TestPasswordsDoNotBelongIntoTheURL(t *testing.T) {
	var schema struct {
		Properties struct {
			URL  struct{ Pattern string }
			Body struct{ WriteOnly bool }
		}
	}
	require.NoError(t, json.Unmarshal(configSchema, &schema))
	assert.True(t, schema.Properties.Body.WriteOnly, "the body is not secret")
	checked := regexp.MustCompile(schema.Properties.URL.Pattern) // before anything is kept of the configuration
	for _, url := range []string{"http://a", "https://a:80", "http://[::1]:80/", "http://a?mail=b@c", "http://a/@b", "http://a#@"} {
		assert.True(t, checked.MatchString(url), "%s is refused", url)
	}
	for _, url := range []string{
		"http://me:password@db.example", "https://password@db.example/path", "ftp://me:password@db.example", "http://me:password%@db.example",
	} {
		r := resource(object{"url": url})
		for _, action := range []string{"state", "wait"} {
			code, stdout, stderr := r.Invoke(t, nil, action)
			assert.True(t, code == 1 && !strings.Contains(stdout+stderr, "password@") && !strings.Contains(stdout+stderr, "password%"),
				"%s ended with %d: %s%s", action, code, stdout, stderr)
		}
		assert.False(t, checked.MatchString(url), "the schema allows %s", url)
	}
	resource(object{"url": "http://me:password@db.example"}).Fails(t, `give them in "headers"`, "state")
}

func TestWaitUntilItIsUp(t *testing.T) {
	var asked atomic.Int32
	url := serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		if asked.Add(1) < 4 {
			w.WriteHeader(502)
		}
	})
	r := resource(object{"url": url, "interval": "1ms"})
	_, output := r.Apply(t) // one request to see it is stale, then the waiting
	assert.True(t, strings.Count(output, "status 502") == 1 && strings.Contains(output, "answers 200-299"), "output: %s", output)
}

// transport answers requests within a synctest bubble, where there is no network.
type transport func(*nethttp.Request) (*nethttp.Response, error)

func (f transport) RoundTrip(r *nethttp.Request) (*nethttp.Response, error) { return f(r) }

func TestWaitGivesUp(t *testing.T) {
	for name, tc := range map[string]struct {
		answer transport
		want   string
		after  time.Duration
	}{
		"always refused": {
			func(*nethttp.Request) (*nethttp.Response, error) { return nil, errors.New("connection refused") },
			"did not answer 200-299 within 30s; last: connection refused", 30 * time.Second,
		},
		"hangs": {
			func(r *nethttp.Request) (*nethttp.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			},
			"within 30s; last: no answer within request_timeout", 30 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := must.Get(newProbe(Config{URL: "http://db.example"}, tc.answer))(t)
				start := time.Now()
				assert.ErrorContains(t, p.wait(t.Context(), io.Discard), tc.want)
				assert.Equal(t, tc.after, time.Since(start), "took")
			})
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, err := newProbe(Config{URL: "http://db.example"}, transport(func(r *nethttp.Request) (*nethttp.Response, error) { return nil, r.Context().Err() }))
	require.NoError(t, err)
	assert.Error(t, p.wait(ctx, io.Discard), "no error")
}

func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(nethttp.ResponseWriter, *nethttp.Request) {}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are meant to be
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	stale := resource(object{"url": s.URL}).Stale(t, "wait")
	assert.Contains(t, stale.Actions[0].Description, "certificate signed by unknown authority", "description")
	resource(object{"url": s.URL, "ca_pem": ca}).Valid(t)
	resource(object{"url": s.URL, "insecure_skip_verify": true}).Valid(t)
	resource(object{"url": s.URL, "ca_pem": "nonsense"}).Fails(t, "ca_pem contains no certificate", "state")
}

func TestLargeAndBinaryBodies(t *testing.T) {
	url := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.URL.Path == "/binary" {
			_, _ = w.Write([]byte{0xff, 0xfe, 0})
			return
		}
		fmt.Fprint(w, "x"+strings.Repeat("é", 2<<20))
	})
	body := resource(object{"url": url}).Valid(t)["body"].(string)
	assert.True(t, len(body) <= 64<<10 && len(body) >= 64<<10-2, "the body in the state has %d bytes", len(body))
	state := resource(object{"url": url + "/binary"}).Valid(t)
	assert.True(t, state["body"] == nil, "state: %v", state)
}

func TestBadConfiguration(t *testing.T) {
	for want, config := range map[string]object{
		"must be like http://host/path":             {"url": "ftp://x"},
		"url must be like":                          {},
		"expect.body_matches: error parsing regexp": {"url": "http://x", "expect": object{"body_matches": "("}},
		"a duration must be positive":               {"url": "http://x", "timeout": "soon"},
		"a duration must be text such as":           {"url": "http://x", "timeout": 30},
		"status must be a number or a list":         {"url": "http://x", "expect": object{"status": "ok"}},
	} {
		resource(config).Fails(t, want, "state")
	}
}

func TestThereIsNothingToRemove(t *testing.T) {
	r := resource(object{"url": "http://127.0.0.1:1"})
	r.Ensure = protocol.Absent
	r.Valid(t)
}

func TestServedProbes(t *testing.T) {
	handler := nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.URL.Path == "/down" {
			w.WriteHeader(503)
		}
		fmt.Fprintf(w, `{"path":%q}`, r.URL.Path)
	})
	plain := serve(t, handler)
	secure := httptest.NewTLSServer(handler)
	t.Cleanup(secure.Close)
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))
	up := []typetest.Resource{
		resource(object{"url": plain + "/1"}), resource(object{"url": plain + "/2", "expect": object{"json": object{"path": "/2"}}}),
		resource(object{"url": secure.URL + "/3", "ca_pem": ca}), resource(object{"url": secure.URL + "/4", "insecure_skip_verify": true}),
		resource(object{"url": plain + "/down", "expect": object{"status": 503}}),
	}
	process := typetest.Served(t, Type())
	typetest.SameAnswers(t, process, up, "wait")
	typetest.SameAnswers(t, process, append(up, resource(object{"url": plain + "/down"}), resource(object{"url": "ftp://x"})), "state")
	typetest.LivesServed(t, up...)
}

func TestProbesKeepToTheProtocol(t *testing.T) {
	url := serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) { fmt.Fprint(w, "well") })
	protocoltest.Check(t, Type(), object{"url": url, "method": "GET"}, nil, nil)
}
