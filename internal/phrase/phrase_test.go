package phrase_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/phrase"
)

func TestCount(t *testing.T) {
	for want, n := range map[string]int{"0 hosts": 0, "1 host": 1, "2 hosts": 2} {
		assert.Equal(t, want, phrase.Count(n, "host"))
	}
	assert.Equal(t, "2 properties", phrase.Count(2, "property"))
}

func TestList(t *testing.T) {
	many := strings.Split(strings.Repeat("a ", 22)+"a", " ")
	for want, names := range map[string][]string{
		"none": nil, "a": {"a"}, "b, a": {"b", "a"}, strings.Repeat("a, ", 19) + "a and 3 more": many,
	} {
		assert.Equal(t, want, phrase.List(names))
	}
}

func TestSize(t *testing.T) {
	for want, n := range map[string]int64{"0 B": 0, "1023 B": 1023, "1 KiB": 1 << 10, "1.5 KiB": 1536, "512 MiB": 512 << 20, "4096 TiB": 4 << 50} {
		assert.Equal(t, want, phrase.Size(n))
	}
}

func TestPlainTextCannotDriveATerminal(t *testing.T) {
	for text, want := range map[string]string{"": "", "naïve – ok": "naïve – ok", "a\nb\x1b[2J\x7f\u009b": "a b [2J  ", "a\u202eb\u202c": "ab"} {
		assert.Equal(t, want, phrase.Plain(text))
	}
}

func TestCut(t *testing.T) {
	for text, want := range map[string]string{"": "", "äbc": "äbc", "äbcd": "äbc…", "a\xff\xffd": "a\xff\xff…"} {
		assert.Equal(t, want, phrase.Cut(text, 3), text)
	}
}

func TestKind(t *testing.T) {
	for text, want := range map[string]string{
		"null": "null", "true": "a boolean", `"x"`: "a string", "1": "a number", "[1]": "a list", "{}": "an object",
	} {
		var v any
		require.NoError(t, json.Unmarshal([]byte(text), &v))
		assert.Equal(t, want, phrase.Kind(v), text)
	}
}

func TestMoment(t *testing.T) {
	at := time.Date(2026, 1, 31, 15, 4, 5, 6, time.Local)
	assert.Equal(t, "2026-01-31 15:04:05", phrase.Moment(at.UTC()))
}

func TestTook(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0.0s": -time.Second, "0.2s": 200 * time.Millisecond, "59.9s": 59900 * time.Millisecond, "1m00s": 59990 * time.Millisecond, "3m05s": 185 * time.Second, "1h02m": 62 * time.Minute,
	} {
		assert.Equal(t, want, phrase.Took(d), d)
	}
}
