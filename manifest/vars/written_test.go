package vars_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/manifest/vars"
)

// A value that is read from what Written returned is the same, in its texts, too.
func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	scalar := rapid.OneOf(
		rapid.SampledFrom([]string{"1.10", "0644", "0x1F", "1e3", "-0.0", "+1", "1_000", "True", "false", "1", "1.0", "~", "null", "!!float 1", "!!int '7'", "!!bool TRUE", "yes", "'1.10'", `"a\n\"b\x07"`, "'{{ x }}'", "''", "é", "2024-01-01"}),
		rapid.Map(rapid.StringMatching(`[ -~é☃\x{7f}\x{feff}]{0,6}`), func(s string) string { return quoted(s) }),
	)
	var value func(depth int) *rapid.Generator[string]
	value = func(depth int) *rapid.Generator[string] {
		if depth == 0 {
			return scalar
		}
		key := rapid.Map(rapid.SampledFrom([]string{"a", "b c", "<<", "1", "true", "é"}), quoted)
		return rapid.OneOf(scalar,
			rapid.Map(rapid.SliceOfN(value(depth-1), 0, 3), func(all []string) string { return "[" + strings.Join(all, ", ") + "]" }),
			rapid.Map(rapid.MapOfN(key, value(depth-1), 0, 3), func(all map[string]string) string {
				var members []string
				for key, item := range all {
					members = append(members, key+": "+item)
				}
				return "{" + strings.Join(members, ", ") + "}"
			}))
	}
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		path := write(t, dir, "v.yaml", "v: "+value(2).Draw(rt, "value")+"\n")
		all := must.Get(vars.In(path))(rt)
		yaml := all[0].Written()
		if yaml == "" {
			return
		}
		assert.NotContains(rt, yaml, "\n")
		again, err := vars.Assignment{Name: "v", File: path}.Rewritten(yaml)
		require.NoError(rt, err, yaml)
		assert.Equal(rt, all[0].Value, again.Value, yaml)
		assert.Equal(rt, yaml, again.Written())
	})
}

func TestOnlyWhatLosesItsTextIsWritten(t *testing.T) {
	for text, want := range map[string]string{
		"1": "", "'1.10'": "", "text": "", "true": "", "{a: [1, x]}": "", "1.5": "", "1.10": "1.10", "0644": "0644", "[x, True]": `["x", True]`, "{a b: 1.0, c: }": `{"a b": 1.0, "c": null}`,
	} {
		all := must.Get(vars.In(write(t, t.TempDir(), "v.yaml", "v: "+text+"\n")))(t)
		assert.Equal(t, want, all[0].Written(), text)
	}
	_, err := vars.Assignment{Name: "v", File: filepath.Join("a", "v.yaml")}.Rewritten("[1")
	assert.ErrorContains(t, err, `its value "[1"`)
}

func quoted(text string) string {
	out, _ := json.Marshal(text)
	return strings.ReplaceAll(string(out), "\x7f", `\u007f`)
}
