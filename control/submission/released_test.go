package submission_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What a registry does not have is the fault of the file; that it does not answer, or lets
// nobody in, is not, and nothing is submitted.
func TestWhatIsReleasedInARegistry(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("{}")))
	for name, c := range map[string]struct {
		status int
		body   string
		fault  bool
	}{
		"is not there":    {http.StatusNotFound, "", true},
		"is no artifact":  {http.StatusOK, "{}", true},
		"is not shown":    {http.StatusUnauthorized, "", false},
		"is not served":   {http.StatusTooManyRequests, "", false},
		"gets no answer":  {0, "", false},
		"is not for this": {http.StatusForbidden, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v2/" {
					return
				}
				w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer server.Close()
			if c.status == 0 {
				server.Close()
			}
			text := fmt.Sprintf("group: g\nartifacts: %s/base\njob: {image: build:1}\npackages: {old: {released: {artifact: %q}}, a: {build: [old]}, b: {}}\n", strings.TrimPrefix(server.URL, "http://"), digest)
			got, err := newWorld(t, nil).collect(text, "a", "b")
			if !c.fault {
				if err == nil || !strings.Contains(err.Error(), "getting what was released of old: ") {
					t.Errorf("it is submitted: %v", err)
				}
				return
			}
			if err != nil || len(got.Submit.Unbuildable) != 1 || !strings.HasPrefix(got.Submit.Unbuildable[0].Cause, "it needs what was released of old: ") {
				t.Errorf("it is %+v, %v", got, err)
			}
		})
	}
}
