package kubewatch_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// hostile are servers that are no API servers, or none that means well.
var hostile = map[string]http.HandlerFunc{
	"speaks-html":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>sign in</html>")) },
	"says-nothing": func(http.ResponseWriter, *http.Request) {},
	"is-a-list":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[1, 2]")) },
	"leads-away": func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
	},
	"has-odd-names": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"preferredVersion": {"version": "../../v1"}}`))
	},
	"has-odd-kinds": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"preferredVersion": {"version": "v1"}, "resources": [{"kind": "Kustomization", "name": "../secrets", "namespaced": true}]}`))
	},
	"is-overwhelmed": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
	"lists-nothing": func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/kustomizations") {
			_, _ = w.Write([]byte("{}"))
			return
		}
		watching("")(w, r)
	},
	"watches-html":  watching("<html>"),
	"watches-much":  watching(`{"type": "MODIFIED", "object": {"metadata": {"name": "` + strings.Repeat("x", 9<<20) + `"}}}`),
	"watches-oddly": watching(`{"type": "MODIFIED", "object": {"metadata": {"name": "shop"}, "a": 1e999}}`),
}

// watching is an API server whose watches say something.
func watching(what string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("watch") != "":
			_, _ = w.Write([]byte(what + "\n"))
		case strings.HasSuffix(r.URL.Path, "/kustomizations"):
			_, _ = w.Write([]byte(`{"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "here"}, "is": 1}]}`))
		default:
			_, _ = w.Write([]byte(`{"preferredVersion": {"version": "v1"}, "resources": [{"kind": "Kustomization", "name": "kustomizations", "namespaced": true}]}`))
		}
	}
}

func serving(t *testing.T, answer http.HandlerFunc) (url string) {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}
