package kubeapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/resources/internal/kubeapi"
)

// kubeconfig is one of a server and a user, each as JSON.
func kubeconfig(cluster, user string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "test",
		"clusters": [{"name": "c", "cluster": %s}], "users": [{"name": "u", "user": %s}],
		"contexts": [{"name": "test", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}, {"name": "bare", "context": {"cluster": "c"}}]}`, cluster, user)
}

const server = `{"server": "https://cluster.example:6443"}`

func TestKubeconfigsThatLeadElsewhereAreRefused(t *testing.T) {
	for name, tc := range map[string]struct{ text, context, want string }{
		"a program":                   {kubeconfig(server, `{"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "s3cret-helper", "interactiveMode": "Never"}}`), "", `"u" runs a program for credentials`},
		"a plugin":                    {kubeconfig(server, `{"auth-provider": {"name": "gcp"}}`), "", `"u" runs a program for credentials`},
		"a file with a token":         {kubeconfig(server, `{"tokenFile": "/var/run/token"}`), "", "it names the file /var/run/token, which the container of a type does not see"},
		"a file with a key":           {kubeconfig(server, `{"client-key": "/etc/key", "client-certificate-data": "AAAA"}`), "", "it names the file /etc/key"},
		"a file with authorities":     {kubeconfig(`{"server": "https://c.example", "certificate-authority": "ca.crt"}`, `{}`), "", "ca.crt, which"},
		"a password in an address":    {kubeconfig(`{"server": "https://me:s3cret@c.example"}`, `{}`), "", "without a user and password"},
		"no address":                  {kubeconfig(`{}`, `{}`), "", `cluster "c" has no server`},
		"no such context":             {kubeconfig(server, `{}`), "prod", `no context "prod"; it has bare, test`},
		"no contexts":                 {`{"apiVersion": "v1", "kind": "Config"}`, "", `no context ""; it has none`},
		"no kubeconfig":               {"token: s3cret\n- x", "", "it must be one in YAML or JSON"},
		"a token for anybody to read": {kubeconfig(`{"server": "http://c.example"}`, `{"token": "s3cret"}`), "", "https"},
		"a token, in capitals":        {kubeconfig(`{"server": "HTTP://c.example"}`, `{"token": "s3cret"}`), "", "over which no credentials are sent"},
		"a user for anybody to read":  {kubeconfig(`{"server": "http://c.example"}`, `{"username": "me", "password": "s3cret"}`), "", "over which no credentials are sent"},
		"a host with a port alone":    {kubeconfig(`{"server": "cluster.example:6443"}`, `{"token": "s3cret"}`), "", `"c" must be an address like https://cluster.example:6443`},
		"a host alone":                {kubeconfig(`{"server": "cluster.example"}`, `{}`), "", `"c" must be an address like https://`},
		"another scheme":              {kubeconfig(`{"server": "ftp://c.example"}`, `{}`), "", `"c" must be an address like https://`},
		"a user in an opaque address": {kubeconfig(`{"server": "me:s3cret@c.example"}`, `{}`), "", `"c" must be an address like https://`},
		"an odd certificate":          {kubeconfig(`{"server": "https://c.example", "certificate-authority-data": "czNjcmV0"}`, `{}`), "", "cannot be used"},
	} {
		_, err := kubeapi.Open([]byte(tc.text), tc.context, nil)
		assert.True(t, err != nil && strings.Contains(err.Error(), tc.want) && !strings.Contains(err.Error(), "s3cret"),
			"%s: %v, want %s", name, err, tc.want)
	}
}

func TestNamespacesOfContexts(t *testing.T) {
	for context, want := range map[string]string{"": "shop", "test": "shop", "bare": "default"} {
		c, err := kubeapi.Open([]byte(kubeconfig(server, `{"token": "t"}`)), context, nil)
		assert.True(t, err == nil && c.Namespace == want && c.Server == "https://cluster.example:6443", "%q: %+v, %v", context, c, err)
	}
}

// open starts a server, and opens a client for it. What the server warns of is appended.
func open(t *testing.T, handler http.HandlerFunc) (c *kubeapi.Client, warned *[]string) {
	s := httptest.NewTLSServer(handler)
	t.Cleanup(s.Close)
	warned = &[]string{}
	c, err := kubeapi.Open([]byte(kubeconfig(`{"server": "`+s.URL+`", "insecure-skip-tls-verify": true}`, `{"token": "a-token"}`)), "", func(format string, args ...any) {
		*warned = append(*warned, fmt.Sprintf(format, args...))
	})
	require.NoError(t, err)
	return c, warned
}

func refusal(w http.ResponseWriter, code int, reason, message string, causes ...any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message, "details": map[string]any{"causes": causes},
	})
}

var deployments = kubeapi.Resource{APIVersion: "apps/v1", Name: "deployments", Namespaced: true}

func TestRefusalsSayWhatToDo(t *testing.T) {
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"a right that is missing": {
			func(w http.ResponseWriter, _ *http.Request) {
				refusal(w, 403, "Forbidden", `deployments.apps "web" is forbidden: User "ci" cannot get resource "deployments" in API group "apps" in the namespace "shop"`)
			},
			"get deployments.apps shop/web: deployments.apps \"web\" is forbidden: User \"ci\" cannot get resource \"deployments\" in API group \"apps\" in the namespace \"shop\"; grant the verb get on deployments.apps in namespace shop",
		},
		"a right of the whole cluster": {
			func(w http.ResponseWriter, _ *http.Request) {
				refusal(w, 403, "Forbidden", `nodes "n" is forbidden: User "ci" cannot patch resource "nodes" in API group "" at the cluster scope`)
			},
			"; grant the verb patch on nodes by a ClusterRole",
		},
		"a policy that says so itself": {
			func(w http.ResponseWriter, _ *http.Request) { refusal(w, 403, "Forbidden", "exceeded quota: pods") },
			"get deployments.apps shop/web: exceeded quota: pods",
		},
		"a token that is over": {
			func(w http.ResponseWriter, _ *http.Request) { refusal(w, 401, "Unauthorized", "Unauthorized") },
			"tokens expire",
		},
		"no API server": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
			"what answers is no API server",
		},
		"no API server, and nothing there": {http.NotFound, "what answers is no API server: check the address in the kubeconfig"},
		"an answer without an end": {
			func(w http.ResponseWriter, _ *http.Request) {
				for range 33 {
					if _, err := w.Write(make([]byte, 1<<20)); err != nil {
						return
					}
				}
			},
			"more than 32 MiB",
		},
	} {
		c, _ := open(t, tc.answer)
		_, err := c.Get(t.Context(), deployments, "shop", "web")
		assert.True(t, err != nil && strings.Contains(err.Error(), tc.want) && !strings.Contains(err.Error(), "a-token"),
			"%s: %v, want %s", name, err, tc.want)
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	c, err := kubeapi.Open([]byte(kubeconfig(`{"server": "`+gone.URL+`"}`, `{}`)), "", nil)
	require.NoError(t, err)
	want := "within a container that address is the container itself: name another one in the kubeconfig, or run with --network host"
	_, err = c.Get(t.Context(), deployments, "shop", "web")
	assert.True(t, err != nil && strings.Contains(err.Error(), want) && kubeapi.Passing(err), err)
}

func TestConflictsNameManagersAndFields(t *testing.T) {
	c, warned := open(t, func(w http.ResponseWriter, r *http.Request) {
		assert.True(t, r.Header.Get("Authorization") == "Bearer a-token" && r.URL.Query().Get("force") == "false",
			"it asks %s with %q", r.URL, r.Header)
		w.Header().Set("Warning", `299 - "apps/v1 goes"`)
		cause := func(kind, message, field string) any {
			return map[string]any{"reason": kind, "message": message, "field": field}
		}
		refusal(w, 409, "Conflict", "Apply failed with 3 conflicts", cause("FieldManagerConflict", `conflict with "kubectl \"edit\"" using apps/v1`, ".spec.replicas"),
			cause("FieldManagerConflict", "conflict", ".spec.paused"), cause("Other", `conflict with "nobody"`, ".spec"))
	})
	object := map[string]any{"metadata": map[string]any{"name": "web", "namespace": "shop"}}
	_, err := c.Apply(t.Context(), deployments, object, kubeapi.ApplyOptions{Manager: "ours"})
	want := []kubeapi.Conflict{{Manager: `kubectl \"edit\"`, Field: ".spec.replicas"}, {Manager: "another manager", Field: ".spec.paused"}}
	assert.Equal(t, want, kubeapi.Conflicts(err))
	got := *warned
	assert.True(t, len(got) == 1 && got[0] == "the cluster warns: apps/v1 goes", "warnings %q", got)
}

func TestKindsAreFoundInWhicheverVersionThereIs(t *testing.T) {
	asked := 0
	c, _ := open(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apis/example.com":
			_, _ = w.Write([]byte(`{"preferredVersion": {"groupVersion": "example.com/v2"}, "versions": [{"groupVersion": "example.com/v2"}, {"groupVersion": "example.com/v1"}]}`))
		case "/api/v1":
			_, _ = w.Write([]byte(`{"resources": [{"name": "namespaces", "kind": "Namespace"}]}`))
		case "/apis/example.com/v1":
			_, _ = w.Write([]byte(`{"resources": [{"name": "widgets/status", "kind": "Widget"}, {"name": "widgets", "kind": "Widget", "namespaced": true}]}`))
		default:
			refusal(w, 404, "NotFound", "the server could not find the requested resource")
		}
	})
	want := kubeapi.Resource{APIVersion: "example.com/v1", Name: "widgets", Namespaced: true}
	for range 2 {
		got, err := c.Resource(t.Context(), "example.com/v1", "Widget")
		assert.True(t, err == nil && got == want, "%+v, %v", got, err)
	}
	assert.Equal(t, 1, asked, "it was asked")
	got, err := c.AnyVersion(t.Context(), "example.com/v1beta1", "Widget")
	assert.True(t, err == nil && got == want, "%+v, %v", got, err)
	for _, apiVersion := range []string{"example.com/v1beta1", "other.com/v1", "v1"} {
		_, err := c.Resource(t.Context(), apiVersion, "Widget")
		assert.ErrorIs(t, err, kubeapi.ErrNoKind, "%s: %v", apiVersion, err)
	}
	_, err = c.AnyVersion(t.Context(), "other.com/v1", "Widget")
	assert.ErrorIs(t, err, kubeapi.ErrNoKind, err)
}

func TestAServerThatDoesNotServeAKindYet(t *testing.T) {
	c, _ := open(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"resources": [{"name": "namespaces", "kind": "Namespace"}]}`))
	})
	_, err := c.Get(t.Context(), deployments, "shop", "web")
	if err == nil || strings.Contains(err.Error(), "no API server") || !strings.Contains(err.Error(), "get deployments.apps shop/web: the server could not find the requested resource") {
		t.Error(err)
	}
}

func TestWhoKnowsNoKindIsNoAPIServer(t *testing.T) {
	c, _ := open(t, http.NotFound)
	for _, apiVersion := range []string{"v1", "example.com/v1"} {
		for _, kind := range []string{"Namespace", "Widget"} {
			_, err := c.AnyVersion(t.Context(), apiVersion, kind)
			if err == nil || errors.Is(err, kubeapi.ErrNoKind) || !strings.Contains(err.Error(), "what answers is no API server") {
				t.Errorf("%s of %s: %v", kind, apiVersion, err)
			}
		}
	}
}
