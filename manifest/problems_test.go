package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/internal/yamlfile/yamltest"
)

// Each file of testdata/problems holds manifests, with what is said about them;
// see yamltest.
func TestProblems(t *testing.T) {
	yamltest.Problems(t, func(files ...string) error {
		_, err := load(t, map[string]any{"region": "eu", "_version": "1.0", "my-var": 1}, files...)
		return err
	})
}

func TestHostileFilesAreRefusedQuickly(t *testing.T) {
	bomb := func(open, item, end string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "resources:\n  r:\n    type: x\n    config:\n      a0: &a0 %s\n", open+end)
		for i := 1; i <= 30; i++ {
			fmt.Fprintf(&b, "      a%d: &a%d %s", i, i, open)
			for range 10 {
				fmt.Fprintf(&b, item, i-1)
			}
			b.WriteString(end + "\n")
		}
		return b.String()
	}
	tests := map[string]struct{ text, want string }{
		"a bomb of lists":      {bomb("[", "*a%d, ", "]"), "a.yaml:8:17: resources.r.config.a30[0]"},
		"a bomb of merge keys": {bomb("{<<: [", "*a%d, ", "]}"), ""},
		"many copies of a large resource": {
			"resources:\n  a: &a {type: x, config: {l: [" + strings.Repeat("1, ", 2000) + "]}}\n" +
				func() string {
					var b strings.Builder
					for i := range 5000 {
						fmt.Fprintf(&b, "  r%d: *a\n", i)
					}
					return b.String()
				}(), "stand for more than 500000 values",
		},
		"brackets":    {"resources: {r: {type: x, config: {a: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}}}", "nested deeper than 100 levels"},
		"open braces": {strings.Repeat("{", 100_000), "malformed YAML"},
		"indentation": {"resources: {}\nx:\n" + func() string {
			var b strings.Builder
			for i := range 1500 {
				b.WriteString(strings.Repeat(" ", i+1) + "a:\n")
			}
			return b.String()
		}(), `unknown key "x"`},
		"itself":        {"resources:\n  r:\n    type: x\n    config: &c\n      again: *c\n", "the anchor &c contains itself"},
		"merged itself": {"resources:\n  r:\n    type: x\n    config: &c\n      <<: *c\n", "nested deeper than"},
		"everything wrong": {func() string {
			var b strings.Builder
			b.WriteString("resources:\n")
			for i := range 10_000 {
				fmt.Fprintf(&b, "  resource%d: {type: x, dependencies: {d: resurce%d}, config: {c: '{{ wrong }}'}}\n", i, i)
			}
			return b.String()
		}(), "and 19000 more problems"},
		"a long expression": {func() string {
			var b strings.Builder
			b.WriteString("resources: {r: {type: x, config: {c: '")
			for i := range 80_000 {
				fmt.Fprintf(&b, "{{n%d}}", i)
			}
			return b.String() + "'}}}"
		}(), "and 79000 more problems"},
		"9 MiB": {"# " + strings.Repeat("x", 9<<20), "a.yaml: has 9437186 bytes or more; at most 8388608 (8 MiB) are possible"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, nil, test.text)
			if err == nil || !strings.Contains(err.Error(), test.want) && !strings.Contains(err.Error(), "stand for more than") {
				t.Errorf("got %.300v, want %s", err, test.want)
			}
		})
	}
}
