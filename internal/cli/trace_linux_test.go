package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A run is sent as spans to whom the environment names, and the same run without anybody
// there neither fails nor takes long; without the environment nothing is sent.
func TestARunIsTraced(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	names := map[string]int{}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err == nil {
			err = proto.Unmarshal(body, &data)
		}
		assert.NoError(t, err)
		mu.Lock()
		defer mu.Unlock()
		for _, of := range data.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				for _, s := range scope.Spans {
					names[s.Name]++
				}
			}
		}
	}))
	defer collector.Close()
	s := newSite(t, "  a: {type: ONE-SHOT, config: {value: one}}")
	apply := func(endpoint string) string {
		c := exec.Command(binary, "apply", "m.yaml", "--confirm", "NO")
		c.Dir, c.Env = s.dir, append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_TRACES_SAMPLER=always_on")
		began := time.Now()
		out, err := c.CombinedOutput()
		assert.True(t, err == nil && time.Since(began) <= 2*time.Minute, "%s: %v after %s\n%s", endpoint, err, time.Since(began), out)
		return string(out)
	}
	out := apply("")
	mu.Lock()
	assert.True(t, !strings.Contains(out, "spans") && len(names) == 0, "nobody asked for spans: %v\n%s", names, out)
	mu.Unlock()
	for _, do := range []func() error{func() error { return os.RemoveAll(s.dir + "/things") }, func() error { return os.Mkdir(s.dir+"/things", 0o700) }} {
		require.NoError(t, do())
	}
	apply(collector.URL)
	mu.Lock()
	for _, name := range []string{"apply", "resource a", "container state"} {
		assert.NotZero(t, names[name], "there is no span %q among %v", name, names)
	}
	mu.Unlock()
	collector.Close()
	out = apply(collector.URL)
	assert.Equal(t, 1, strings.Count(out, "note: spans are not sent"), "it is not said that nobody takes spans:\n%s", out)
}
