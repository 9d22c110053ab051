package invoke

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/terminal"
)

// secrets are those that are each a text.
func secrets(texts ...string) *Secrets {
	var s Secrets
	for _, text := range texts {
		s.Add(text, [][]string{{}})
	}
	return &s
}

// invisible are texts that nobody sees.
var invisible = []string{"\x00", "\a", "\x7f", "\u200b", "\u200d", "\ufeff", "\u00ad", "\u202e", "\u2066", "\u0301", "\ufe0f", "\u034f", "\U000e0041", "\u0085", "\v", "\xff", "\xe2\x82", "\ufffd", "\r",
	"\x1b[0m", "\x1b[1;31m", "\x1b]0;title\a", "\x1b]8;;http://x\x1b\\", "\x1bP1$r\x1b\\", "\x1b(B", "\x1b7", "\u009b0m", "\x1b[3\nm"}

func TestASecretIsHiddenThoughSomethingInvisibleIsInIt(t *testing.T) {
	s := secrets("correct horse", "\u200bs3cr3t", "4\t2\nlines", "pin")
	for text, want := range map[string]string{
		"correct\x1bhorse correct\thorse, correct\u00a0horse": "correct\x1bhorse " + Masked + ", " + Masked,
		"cor\x1brect horse":             Masked, // as it was
		"co\x1b[0mr\x1b[1mrect horse":   Masked, // as it is shown
		"s3cr3t s\x003cr3t":             Masked + " " + Masked,
		"4 2 lines":                     Masked,
		"correcX\bt horse":              Masked,
		"c\bco\bor\brrect\bt horse":     "c\b" + Masked,
		"XXXrect horse\rcor":            "XXX" + Masked,
		"cor\rrect horse":               Masked,
		`cor\u001b[0mrect horse`:        Masked,
		`c\x00or\033[mrect horse`:       Masked,
		`c\\u200borrect\\thorse`:        Masked,
		"c%e2%80%8Borrect%20horse":      Masked,
		"a\x1b]0;correct horse\ab":      "a\x1b]0;" + Masked + "\ab",
		"correct\nhorse\nstaple":        Masked + "\nstaple",
		"corre\x1b]0;\nct\x1b[0m horse": "corre\x1b]0;\nct\x1b[0m horse",
		"\x1b]0;\ncorre\x1b[0mct horse": "\x1b]0;\n" + Masked,
		"corre\x1b]0;\n\act horse":      Masked,
		"\x1b[31mred\x1b[0m":            "\x1b[31mred\x1b[0m",
		"corre\x00c\x00":                "corre\x00c\x00",
	} {
		assert.Equal(t, want, s.Mask(text), "%q", text)
	}
	for _, text := range []string{"p\u200bin", `p\u0000in`, "p\x1b[0min"} {
		assert.Equal(t, Masked, s.Whole(text), "%q", text)
	}

	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[a-cä]{4,12}`).Draw(t, "secret")
		stuffed := ""
		for i, char := range strings.Split(secret, "") {
			if i > 0 {
				stuffed += strings.Join(rapid.SliceOfN(rapid.SampledFrom(invisible), 0, 3).Draw(t, "between"), "")
			}
			stuffed += char
		}
		switch rapid.IntRange(0, 3).Draw(t, "encoding") {
		case 1:
			stuffed = strings.Trim(string(must.Get(json.Marshal(stuffed))(t)), `"`)
		case 2:
			stuffed = strings.Trim(strconv.QuoteToASCII(stuffed), `"`)
		case 3:
			stuffed = url.QueryEscape(stuffed)
		}
		require.Equal(t, "["+Masked+"]", secrets(secret).Mask("["+stuffed+"]"), "%q, written as %q", secret, stuffed)
	})
}

var (
	sequence = regexp.MustCompile(`\x1b\[[0-9;]*[a-zA-Z]|\x1b\][^\a]*\a`)
	unseenIn = regexp.MustCompile(`[\pC\pM\x{ad}\x{fffd}]`)
)

// seen are the texts that somebody may see of one.
func seen(text string) []string {
	valid := strings.ToValidUTF8(text, "\ufffd")
	shown := func(text string) string { return unseenIn.ReplaceAllString(text, "") }
	return []string{text, shown(terminal.Scrub(text)), shown(valid), shown(sequence.ReplaceAllString(valid, ""))}
}

// Whatever is written, a secret is neither kept nor shown, and no more is hidden than there is of it.
func TestNoSecretIsSeenInWhatIsMasked(t *testing.T) {
	const secret = "abca"
	s := secrets(secret)
	part := rapid.SampledFrom([]string{"a", "b", "c", "ab", "ca", "bc", "\x1b[0m", "\x1b]t\a", "\x00", "\u200b", "\xff", "é", "0", "m"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(part, 0, 16).Draw(t, "parts"), "")
		there := func(text string) bool { return strings.Contains(strings.Join(seen(text), "\n"), secret) }
		got := s.Mask(text)
		require.False(t, there(got), "%q is seen as %q", text, got)
		require.Equal(t, there(text), got != text, "%q is seen as %q", text, got)
	})
}

func TestASecretIsHiddenThoughALineIsPartedInIt(t *testing.T) {
	// A line that is written over is not seen as a whole if it is parted.
	between := append([]string{".", "", `\u0000`, `\\u200b`}, slices.DeleteFunc(slices.Clone(invisible), func(text string) bool { return text == "\r" || strings.Contains(text, "\n") })...)
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for _, part := range rapid.SliceOfN(rapid.SampledFrom([]string{"hunter2", "hu", "nter", "2", `hun\u0000te`, "%", "r2", ".", "\n"}), 1, 12).Draw(t, "parts") {
			text.WriteString(part)
			between := rapid.SampledFrom(between).Draw(t, "between")
			most := rapid.SampledFrom([]int{3, 3, 3, 3, 3, 3, maxLine + 1000}).Draw(t, "most")
			text.WriteString(strings.Repeat(between, rapid.IntRange(0, most/max(1, len(between))).Draw(t, "times")))
		}
		s, got := secrets("hunter2", "r2.\x1b"), ""
		l := &lines{secrets: s, each: func(line string) { got += line }}
		step := rapid.SampledFrom([]int{1, 7, 4097, maxLine, 1 << 20}).Draw(t, "step")
		for rest := text.String(); rest != ""; {
			n := min(step, len(rest))
			must.Get(l.Write([]byte(rest[:n])))(t)
			rest = rest[n:]
		}
		l.flush()
		want := ""
		for line := range strings.SplitSeq(text.String(), "\n") {
			want += s.Mask(line)
		}
		bare := strings.NewReplacer("\r", "")
		if bare.Replace(want) != bare.Replace(got) {
			t.Fatalf("%.900q\nis handed on as\n%.900q\nand not as\n%.900q", text.String(), got, want)
		}
	})
}

func TestTheRestOfALineIsHiddenIfASecretThatBeganInItDoesNotEnd(t *testing.T) {
	l, got := hiding("hunter2")
	for _, part := range []string{"at first", strings.Repeat(".", maxLine), "hunt", strings.Repeat("\x00", 8<<20), "er2 and more\n", "the next\n"} {
		must.Get(l.Write([]byte(part)))(t)
		require.LessOrEqual(t, len(l.pending), 3*maxHeld)
	}
	require.Equal(t, "at first"+Masked+"the next", strings.ReplaceAll(strings.Join(*got, ""), ".", ""))
}

// FuzzMask requires that no secret is seen in a text whose secrets are masked.
func FuzzMask(f *testing.F) {
	for _, text := range invisible {
		f.Add("hush"+text+"hush "+text, "hushhush")
	}
	f.Fuzz(func(t *testing.T, text, secret string) {
		s := secrets(secret)
		if len(secret) < shortestSecret || strings.Contains(Masked, secret) || strings.ContainsAny(secret, "()\t\r\n") {
			return // what stands in its place would be seen
		}
		got := s.Mask(text)
		for _, line := range append(terminal.Lines(got), got, terminal.Scrub(got)) {
			require.NotContains(t, line, secret, "%q", text)
		}
	})
}
