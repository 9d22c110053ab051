package invoke

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// hiding makes lines that hide secrets, and collects what they hand on.
func hiding(words ...string) (*lines, *[]string) {
	var got []string
	l := &lines{secrets: &Secrets{}, each: func(text string) { got = append(got, text) }}
	for _, word := range words {
		l.secrets.known.add(word)
	}
	return l, &got
}

func TestALongLineIsHandedOnInParts(t *testing.T) {
	for name, tc := range map[string]struct {
		text  string
		parts int // at most
	}{
		"short":                  {"one\ntwo", 2},
		"one less than two":      {strings.Repeat("y", 2*maxLine-1) + "\n", 3},
		"two":                    {strings.Repeat("y", 2*maxLine) + "\n", 3},
		"three":                  {strings.Repeat("y", 200_000) + "\nend\n", 5},
		"without an end":         {strings.Repeat("y", 200_000), 4},
		"of long characters":     {strings.Repeat("€", 100_000) + "\n", 5},
		"of invalid characters":  {strings.Repeat("\x80", 200_000) + "\n", 4},
		"of carriage returns":    {strings.Repeat("\r", 200_000) + "\n", 3},
		"with a carriage return": {strings.Repeat("y", maxLine) + "\r\nend\r\n", 3},
	} {
		t.Run(name, func(t *testing.T) {
			for _, step := range []int{1 << 20, 32 << 10, 4097, 7} {
				l, got := hiding()
				for rest := []byte(tc.text); len(rest) > 0; rest = rest[min(step, len(rest)):] {
					if _, err := l.Write(rest[:min(step, len(rest))]); err != nil {
						t.Fatal(err)
					}
				}
				l.flush()
				if len(*got) > tc.parts {
					t.Errorf("%d at a time: it came in %d parts, want %d", step, len(*got), tc.parts)
				}
				for _, part := range *got {
					if utf8.ValidString(tc.text) && !utf8.ValidString(part) {
						t.Error("a character was cut in two")
					}
				}
				if name == "of carriage returns" {
					continue // those that end a line are no part of it
				}
				if plain := strings.NewReplacer("\r", "", "\n", ""); strings.Join(*got, "") != plain.Replace(tc.text) {
					t.Errorf("%d at a time: it came as another text", step)
				}
			}
		})
	}
}

func TestTheLongerOfTwoSecretsIsHiddenWhereverALineIsParted(t *testing.T) {
	for before := maxLine - 40; before < maxLine+40; before++ {
		l, got := hiding("hush", "hush-hush, as was said")
		fmt.Fprintf(l, "%shush-hush,", strings.Repeat("y", before))
		fmt.Fprintf(l, " as was said%s\n", strings.Repeat("z", maxLine))
		want := strings.Repeat("y", before) + Masked + strings.Repeat("z", maxLine)
		if strings.Join(*got, "") != want {
			t.Fatalf("after %d bytes more is told than %s", before, Masked)
		}
	}
}

// FuzzLines writes a text in pieces, and requires that each of its lines comes
// out as if it had been Masked at once, and that little is held back meanwhile.
func FuzzLines(f *testing.F) {
	f.Add([]byte("the token is hush-hush\nand more\r\n"), []byte("hush-hush"), []byte("hush"), uint16(3), uint16(0), uint16(0))
	f.Add([]byte("y"), []byte("yyyy"), []byte("yyyyyyy"), uint16(4096), uint16(0), uint16(3))
	f.Add([]byte("\x80"), []byte("\x80\x80\x80\x80\x80"), []byte("long"), uint16(60_000), uint16(1), uint16(2))
	f.Add([]byte("€"), []byte("\x82\xac\xe2\x82\xac"), []byte("€€€"), uint16(30_000), uint16(1), uint16(7))
	f.Add([]byte(`{"a":"x\\\\u0041\\/`), []byte("xA/"), []byte(`a":"xA`), uint16(20_000), uint16(9), uint16(13))
	f.Add([]byte("abcde"), []byte("abcdeabcdeabcdeab"), []byte("cdea"), uint16(20_000), uint16(40_000), uint16(11))
	f.Fuzz(func(t *testing.T, unit, secret, other []byte, repeat, size, step uint16) {
		// A long line is what it is about: the unit many times, and once more.
		text := bytes.Repeat(unit, min(1+int(repeat), 1+3*maxLine/max(1, len(unit))))
		text = append(append(text, secret...), text[:len(text)/2]...)
		var words []string
		for _, word := range [][]byte{secret, other, bytes.Repeat(secret, 1+int(size)/max(1, len(secret)))} {
			// No secret that is looked for has these: each of its lines is one.
			if word := strings.NewReplacer("\n", "", "\r", "").Replace(string(word)); len(word) >= shortestSecret {
				words = append(words, word)
			}
		}
		l, got := hiding(words...)
		const escape = 12 * 12 * 12 // bytes of the longest spelling of a character, at each level as a pair of \\uXXXX
		most := maxLine + maxLine + 3*l.secrets.held() + escape + utf8.UTFMax
		for i := 0; i < len(text); {
			n := min(1+int(step)*(1+i%5), len(text)-i)
			if _, err := l.Write(text[i : i+n]); err != nil {
				t.Fatal(err)
			}
			if len(l.pending) > most {
				t.Fatalf("%d bytes are held back, and the longest secret has %d", len(l.pending), l.secrets.held())
			}
			i += n
		}
		l.flush()
		var want strings.Builder
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			want.WriteString(l.secrets.Mask(string(line)))
		}
		bare := strings.NewReplacer("\r", "")
		if bare.Replace(strings.Join(*got, "")) != bare.Replace(want.String()) {
			t.Error("it came as another text than the Masked one")
		}
	})
}

// However a stream is cut into writes, no secret gets through and nothing else
// is lost.
func TestLinesHideSecretsAcrossWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Secrets
		s.Add(map[string]any{"t": "hunter2"}, [][]string{{"t"}})
		long := rapid.IntRange(0, 3).Draw(t, "long") == 0
		text := ""
		for _, part := range rapid.SliceOfN(rapid.SampledFrom([]string{"hunter2", "hun", "ter2", "\n", "a", "hunter2hunter2"}), 0, 12).Draw(t, "parts") {
			text += part
			if long {
				text += strings.Repeat(".", maxLine/2+rapid.IntRange(0, 9).Draw(t, "off"))
			}
		}
		var got string
		l := &lines{secrets: &s, each: func(line string) { got += line }}
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "write")
			if _, err := l.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		l.flush()
		want := ""
		for _, line := range splitLines(text) {
			want += s.Mask(line)
		}
		if got != want {
			t.Fatalf("got %d bytes, want %d", len(got), len(want))
		}
	})
}

func splitLines(text string) []string {
	var all []string
	start := 0
	for i := range len(text) {
		if text[i] == '\n' {
			all = append(all, text[start:i])
			start = i + 1
		}
	}
	return append(all, text[start:])
}
