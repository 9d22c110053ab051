package terminal

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestSequencesAreNotPrinted(t *testing.T) {
	for text, want := range map[string]string{
		"a\x1b[31mb\x1b[0mc":           "abc",
		"a\x1b]0;title\x07b":           "ab",
		"a\x1b]8;;http://x\x1b\\b":     "ab",
		"a\x1bP1$r0m\x1b\\b":           "ab",
		"a\x1b(Bb\x1bcd":               "abd",
		"a\u009b31mb":                  "a31mb",
		"a\x1b[3\x18b":                 "ab",
		"a\x1b[äb":                     "aäb",
		"a\x1b]0;ä\u271c\x07b":         "ab", // of which a byte is that of an end
		"a\x1b[3\nmb":                  "ab",
		"a\x1b]0;it has no end, and b": "a",
		"a\x9b31mb":                    "a\uFFFD31mb",
	} {
		assert.Equal(t, want, Scrub(text), "%q", text)
	}
	var known []string
	Sequences([]byte("a\u009b31mb\u009d0;x\u009cc\u009bd"), true, func(start, end int) { known = append(known, "a\u009b31mb\u009d0;x\u009cc\u009bd"[start:end]) })
	assert.Equal(t, []string{"\u009b31m", "\u009d0;x\u009c", "\u009bd"}, known)
	part := rapid.SampledFrom([]string{"\x1b", "[", "]", "0;", "31", "m", "P", "\x07", "\\", "(", "ä", "世", " ", "b", "\x18"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(part, 0, 20).Draw(t, "parts"), "")
		got := withoutSequences(text)
		assert.Equal(t, strings.Map(printed, ansi.Strip(text)), strings.Map(printed, got), "%q", text)
	})
}

// printed leaves out control characters, as Scrub does.
func printed(r rune) rune {
	if r < ' ' {
		return -1
	}
	return r
}
