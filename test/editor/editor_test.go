package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
)

// Every value of the examples is edited: nothing else changes, and every reader reads what was set.
func TestEditsOfTheExamplesAreMinimal(t *testing.T) {
	c := newCount(true)
	require.NoError(t, c.directory("../../examples"))
	var said bytes.Buffer
	c.print(&said)
	assert.Empty(t, c.failures, said.String())
	assert.Greater(t, c.rows["image"].minimal, 5, said.String())
	assert.Greater(t, c.rows["(others)"].minimal, 500, said.String())
}

// The table counts each value once, and the reasons of what is refused.
func TestWhatIsCounted(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml":           "image: {name: a, tag: v1} # here\nreplicas: 3\n---\nversion: |\n  1\n",
		"chart/b.json":     `{"appVersion": "1.0", "image": "a/b:1", "tag": 7}`,
		"chart/t.yaml":     "{{- if x }}\ntag: 1\n{{- end }}\n",
		"broken.yml":       "a: [\n",
		".git/config.yaml": "tag: 1\n",
		"README.md":        "tag: 1\n",
	} {
		at := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o700))
		require.NoError(t, os.WriteFile(at, []byte(text), 0o600))
	}
	c := newCount(false)
	require.NoError(t, c.directory(dir))
	var said bytes.Buffer
	c.print(&said)
	assert.Equal(t, `VALUE       EDITED  MINIMAL  WRONG  REFUSED
appVersion  1       1        0      0
image       1       1        0      0
tag         2       2        0      0
version     1       0        0      1
all         5       4        0      1

4 files, of which 1 are templates; 0 values are left out, of large files

not read because:
     1  it is neither YAML nor JSON

refused because:
     1  PATH (line N): it is written as a block (| or >): write it on one line
`, said.String())
}

// An edit that changes more than its value, or that a reader reads as something else, is found.
func TestAWrongEditIsFound(t *testing.T) {
	const file = "a: 1 # x\ntag: v1 # here\nb: 2\n"
	values := must.Get(valuesOf([]byte(file), false))(t)
	require.Len(t, values, 1)
	before := readAll([]byte(file))
	for after, want := range map[string]struct {
		minimal bool
		wrong   string
	}{
		"a: 1 # x\ntag: v2 # here\nb: 2\n":   {true, ""},
		"a: 1 # x\ntag: v2\nb: 2\n":          {false, ""},
		"a: 1 # x\ntag: v2 # here\nb: 3\n":   {false, "yaml.v3 reads something else differently"},
		"a: 1 # x\ntag: v3 # here\nb: 2\n":   {true, "yaml.v3 reads v3 (string), not v2"},
		"a: 1 # x\ntag: [v2 # here\nb: 2\n":  {true, "yaml.v3 reads it no more"},
		"a: 1 # x\n\ntag: v2 # here\nb: 2\n": {false, ""},
	} {
		assert.Equal(t, want.minimal, values[0].minimal([]byte(file), []byte(after)), after)
		why := before.differs([]byte(after), values[0], "v2")
		if want.wrong == "" {
			assert.Empty(t, why, after)
		} else {
			assert.Contains(t, why, want.wrong, after)
		}
	}
}
