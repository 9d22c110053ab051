package submission_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/artifacts"
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
				assert.ErrorContains(t, err, "getting what was released of old: ", "it is submitted")
				return
			}
			if err != nil || len(got.Submit.Unbuildable) != 1 || !strings.HasPrefix(got.Submit.Unbuildable[0].Cause, "it needs what was released of old: ") {
				t.Errorf("it is %+v, %v", got, err)
			}
		})
	}
}

// What a registry has is fetched when the group is submitted, so that its jobs need no registry.
func TestWhatIsReleasedIsPulledOnce(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	from := newWorld(t, map[string]string{"libc/lib/libc.so": "released"})
	made, err := from.store.Collect(t.Context(), filepath.Join(from.dir, "libc"), artifacts.Limits{})
	require.NoError(t, err)
	if _, err := from.store.Push(t.Context(), made.Digest, host+"/base", "libc", nil); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, nil)
	text := fmt.Sprintf("group: g\nartifacts: %s/base\njob: {image: build:1}\npackages: {libc: {released: {artifact: %q}}, a: {build: [libc]}}\n", host, made.Digest)
	for range 2 {
		uses := w.collected(text, "a").Submit.Jobs[0].Uses
		require.Len(t, uses, 1)
		require.Equal(t, made.Digest, uses[0].Artifact, "it uses %+v", uses)
		dir, err := w.store.Directory(t.Context(), made.Digest)
		require.NoError(t, err)
		if text, err := os.ReadFile(filepath.Join(dir, "lib/libc.so")); err != nil || string(text) != "released" {
			t.Errorf("it holds %q, %v", text, err)
		}
		server.Close() // what is here is not fetched again
	}
}
