package deploylog

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOfALongErrorTheEndIsKept(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"short":    {"no disk", "no disk"},
		"just":     {strings.Repeat("x", MaxCause), strings.Repeat("x", MaxCause)},
		"long":     {strings.Repeat("x", MaxCause) + "end", "…" + strings.Repeat("x", MaxCause-3) + "end"},
		"in runes": {strings.Repeat("ä", MaxCause), "…" + strings.Repeat("ä", MaxCause/2)},
		"no UTF-8": {"a\xffb", "a\uFFFDb"},
	} {
		got := Cause(test.text)
		assert.True(t, got == test.want, "%s: %d bytes are kept, want %d", name, len(got), len(test.want))
	}
}
