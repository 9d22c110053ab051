package deploylog

import (
	"strings"
	"testing"
)

func TestOfALongErrorTheEndIsKept(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"short":    {"no disk", "no disk"},
		"just":     {strings.Repeat("x", MaxCause), strings.Repeat("x", MaxCause)},
		"long":     {strings.Repeat("x", MaxCause) + "end", "…" + strings.Repeat("x", MaxCause-3) + "end"},
		"in runes": {strings.Repeat("ä", MaxCause), "…" + strings.Repeat("ä", MaxCause/2)},
		"no UTF-8": {"a\xffb", "a\uFFFDb"},
	} {
		if got := Cause(test.text); got != test.want {
			t.Errorf("%s: %d bytes are kept, want %d", name, len(got), len(test.want))
		}
	}
}
