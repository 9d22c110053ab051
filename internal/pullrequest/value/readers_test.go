package value_test

import (
	"encoding/json"
	"fmt"
	"testing"

	goccy "github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	sigs "sigs.k8s.io/yaml"

	"github.com/deployster-go/deployster/internal/must"
)

// readers are how programs read the files that people keep: Flux and Argo CD, Helm and kubectl,
// and readers of YAML 1.2.
var readers = map[string]func([]byte, any) error{
	"yaml.v3":  yaml.Unmarshal,
	"sigs":     func(text []byte, to any) error { return sigs.Unmarshal(text, to) },
	"JSON":     json.Unmarshal,
	"YAML 1.2": func(text []byte, to any) error { return goccy.Unmarshal(text, to) },
}

func TestEveryReaderReadsWhatWasWritten(t *testing.T) {
	versions := []string{
		"1.10", "1.9", "1.2.3", "v2", "42", "007", "0123456", "1234567", "12e4567", "1e3", "0x1f", "0x1234567890abcdef1234", "0o17", "0b11", "1_000", "1:30",
		"on", "Off", "yes", "n", "true", "null", "~", "=", ".inf", ".NaN", "2026-11-29", "main-4a5b6c7", "4a5b6c7", "1234e56", "sha256:4a5b", "1.0.0+build5",
		"-1", "+1", "1.", ".5", "a: b", "a #b", "é", "",
	}
	for name, file := range map[string]string{
		"a number":    "tag: 1.9\n",
		"an integer":  "tag: 41\n",
		"null":        "tag: null\n",
		"a tilde":     "tag: ~\n",
		"a text":      "tag: v1\n",
		"quotes":      "tag: 'v1'\n",
		"JSON":        `{"tag": 1.9}`,
		"JSON's null": `{"tag": null}`,
		"a true":      "tag: on\n",
		"two quotes":  "tag: \"v1\"\n",
		"a comment":   "a: 1\ntag: 1.9   # of prod\n",
		"CRLF":        "a: 1\r\ntag: 1.9\r\n",
		"no end":      "tag: 1.9",
		"braces":      "{a: [1], tag: 1.9, b: 2}\n",
		"a directive": "%YAML 1.2\n---\ntag: 1.9\n",
		"escapes":     `{"a\/b": "\ud83d\ude00", "tag": "v1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, to := range versions {
				changed, err := path(t, "tag").Set([]byte(file), to)
				require.NoError(t, err, to)
				for reader, read := range readers {
					var got map[string]any
					if read([]byte(file), &got) != nil {
						continue // it reads no such file
					}
					got = nil
					require.NoError(t, read(changed, &got), "%s reads %q", reader, changed)
					assert.Equal(t, to, fmt.Sprint(got["tag"]), "%s reads %q", reader, changed)
				}
				if json.Valid([]byte(file)) {
					assert.True(t, json.Valid(changed), "%q", changed)
				}
			}
		})
	}
}

func TestANumberIsReadAsProgramsReadIt(t *testing.T) {
	for text, want := range map[string]string{"1.10": "1.1", "1.1": "1.1", "'1.10'": "1.10", "42": "42", "0123456": "42798", "1e3": "1000", "v1.10": "v1.10",
		"on": "true", "Yes": "true", "N": "false", "'on'": "on", "oN": "oN"} {
		got := must.Get(path(t, "tag").Get([]byte("tag: " + text + "\n")))(t)
		assert.Equal(t, want, got, text)
	}
}
