package examples

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
)

// Actions of several resources run at once. The example types of which several
// resources share a file lose nothing of what the others do.
func TestActionsOfOneTypeMayRunAtOnce(t *testing.T) {
	const many = 6
	for _, example := range []struct {
		source, plug, action string
		interpreter          string
		config               func(i int) map[string]any
		holds                func(text string, i int) bool
	}{
		{"type-shell/line.sh", "/plug/files", "add", "sh",
			func(i int) map[string]any { return map[string]any{"file": "shared", "line": fmt.Sprint("line ", i)} },
			func(text string, i int) bool { return strings.Contains("\n"+text, fmt.Sprintf("\nline %d\n", i)) }},
		{
			"type-python/setting.py", "/plug/settings", "set", "python3",
			func(i int) map[string]any {
				return map[string]any{"file": "shared", "key": fmt.Sprint("key", i), "value": i}
			},
			func(text string, i int) bool {
				var settings map[string]any
				return json.Unmarshal([]byte(text), &settings) == nil && settings[fmt.Sprint("key", i)] == float64(i)
			},
		},
	} {
		t.Run(example.source, func(t *testing.T) {
			plug := t.TempDir()
			text := must.Get(os.ReadFile(example.source))(t)
			program := filepath.Join(t.TempDir(), "type")
			require.NoError(t, os.WriteFile(program, []byte(strings.ReplaceAll(string(text), example.plug, plug)), 0o600))
			ended := make(chan error)
			for i := range many {
				go func() {
					request, err := json.Marshal(map[string]any{"name": "r", "config": example.config(i), "staleState": map[string]any{}})
					if err == nil {
						cmd := exec.CommandContext(t.Context(), example.interpreter, program, example.action)
						cmd.Stdin = strings.NewReader(string(request))
						var out []byte
						if out, err = cmd.CombinedOutput(); err != nil {
							err = fmt.Errorf("%w: %s", err, out)
						}
					}
					ended <- err
				}()
			}
			for range many {
				assert.NoError(t, <-ended)
			}
			shared := must.Get(os.ReadFile(filepath.Join(plug, "shared")))(t)
			for i := range many {
				assert.True(t, example.holds(string(shared), i), "what action %d did is lost:\n%s", i, shared)
			}
		})
	}
}
