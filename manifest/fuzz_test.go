package manifest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/internal/yamlfile/yamltest"
)

// Whatever a file holds, Load answers with a manifest that can be hashed, or
// with problems whose positions are in the file.
func FuzzLoad(f *testing.F) {
	f.Add(disks)
	yamltest.Seed(f)
	f.Fuzz(func(t *testing.T, text string) {
		m, err := load(t, map[string]any{"region": "eu"}, text)
		if err != nil {
			yamltest.Showable(t, err, yamltest.Lines(text))
			return
		}
		for _, r := range m.Resources {
			_, err = json.Marshal(r.Config)
			require.NoError(t, err)
			for key := range r.Config {
				r.At(key, "0")
			}
		}
		require.Equal(t, 64, len(m.Hash()), "no hash")
	})
}

func large(n int) string {
	var b strings.Builder
	b.WriteString("resources:\n")
	for i := range n {
		fmt.Fprintf(&b, "  r%d:\n    type: deployster/file\n", i)
		if i > 0 {
			fmt.Fprintf(&b, "    dependencies: {before: r%d}\n", i-1-i%7*(i/14))
			fmt.Fprintf(&b, "    config: {path: 'x/{{ before.state.path }}-%d', content: 'hello {{ region }} %d', mode: '0644', list: [1, 2, 3]}\n", i, i)
		}
	}
	return b.String()
}

func TestThousandsOfResources(t *testing.T) {
	n := ringtest.Cases(2_000, 10_000)
	m := mustLoad(t, map[string]any{"region": "eu"}, large(n))
	place := map[string]int{}
	for i, r := range m.Resources {
		place[r.Name] = i
		for _, d := range m.Dependencies(r.Name) {
			if at, there := place[d]; !there || at >= i {
				t.Fatalf("%s stands before %s, on which it depends", r.Name, d)
			}
		}
	}
	assert.Len(t, place, n)
}

func BenchmarkLoad10000(b *testing.B) {
	text := large(10_000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		mustLoad(b, map[string]any{"region": "eu"}, text)
	}
}
