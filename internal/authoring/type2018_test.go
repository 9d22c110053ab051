package authoring

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What images of 2018 say keeps to the protocol as it is today.
func TestTypesOf2018KeepToTheProtocol(t *testing.T) {
	w := write(t, "python", "", "")
	text := strings.ReplaceAll(read(t, filepath.Join("testdata", "type2018.py")), "/plug/root", w.plug)
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "type.py"), []byte(text), 0o600))
	good := map[string]any{"path": "hello.txt", "content": "Hello!", "load": 0.5, "timeout_ms": 5000, "day": 7}
	results, err := w.check(t, func(o *Options) { o.Config, o.Verbose = good, true })
	assert.NoError(t, err)
	for _, r := range results {
		assert.True(t, r.Outcome != Failed && r.Outcome != Warning, "%s: %s: %s", r.Name, r.Outcome, r.Detail)
	}
}
