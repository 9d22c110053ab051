package invoke

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/protocol"
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
					must.Get(l.Write(rest[:min(step, len(rest))]))(t)
				}
				l.flush()
				assert.LessOrEqual(t, len(*got), tc.parts, step)
				for _, part := range *got {
					assert.True(t, !utf8.ValidString(tc.text) || utf8.ValidString(part), "a character was cut in two")
				}
				if name == "of carriage returns" {
					continue // those that end a line are no part of it
				}
				assert.Equal(t, strings.NewReplacer("\r", "", "\n", "").Replace(tc.text), strings.Join(*got, ""), step)
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
		require.Equal(t, want, strings.Join(*got, ""), "after %d bytes more is told than %s", before, Masked)
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
		most := 3*(maxHeld+l.secrets.longest()) + 2*maxLine
		for i := 0; i < len(text); {
			n := min(1+int(step)*(1+i%5), len(text)-i)
			must.Get(l.Write(text[i : i+n]))(t)
			require.LessOrEqual(t, len(l.pending), most)
			i += n
		}
		l.flush()
		var want strings.Builder
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			want.WriteString(l.secrets.Mask(string(line)))
		}
		bare := strings.NewReplacer("\r", "")
		assert.Equal(t, bare.Replace(want.String()), bare.Replace(strings.Join(*got, "")), "it came as another text than the Masked one")
	})
}

// However a stream is cut into writes, no secret gets through and nothing else is lost.
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
			must.Get(l.Write([]byte(rest[:n])))(t)
			rest = rest[n:]
		}
		l.flush()
		want := ""
		for _, line := range splitLines(text) {
			want += s.Mask(line)
		}
		require.Equal(t, want, got)
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

// An error that a program got over is not why it ended.
func TestTheReasonIsTheCrashThatWasTheEnd(t *testing.T) {
	var frames, polls []string
	for i := range 30 {
		frames = append(frames, fmt.Sprintf("\tat com.example.Main.f%d(Main.java:%d)", i, i))
		polls = append(polls, fmt.Sprintf("poll %d", i))
	}
	for name, tc := range map[string]struct {
		lines []string
		want  string
	}{
		"a log line that looks like one": {
			slices.Concat([]string{"ConnectionError: retrying (1/3)"}, polls, []string{"fatal: disk full on /srv"}), "fatal: disk full on /srv",
		},
		"one that was got over": {
			slices.Concat([]string{"java.io.IOException: gone"}, frames, []string{"trying again", "fatal: disk full"}), "fatal: disk full",
		},
		"a later one": {
			[]string{"ConnectionError: retrying", "connected", "ValueError: no number"}, "ValueError: no number",
		},
		"of Java": {
			slices.Concat([]string{`Exception in thread "main" java.lang.Error: broken`}, frames, []string{"Caused by: java.io.IOException: gone", "\t... 5 more"}),
			`Exception in thread "main" java.lang.Error: broken`,
		},
		"of Go": {
			[]string{"panic: out of", "cheese", "", "goroutine 1 [running]:", "main.(*shop).sell(0x0?)", "\t/src/main.go:4 +0x1d", "created by main.main in goroutine 1", "\t/src/main.go:9 +0x1", "exit status 2"},
			"panic: out of",
		},
		"of Rust": {
			[]string{"thread 'main' panicked at src/main.rs:2:5:", "no cheese", "stack backtrace:", "   0: rust_begin_unwind", "             at /rustc/lib.rs:5", "note: Some details are omitted"},
			"thread 'main' panicked at src/main.rs:2:5:",
		},
		"of Rust, without a stack": {
			[]string{"thread 'main' panicked at src/main.rs:2:5:", "no cheese", "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace"},
			"thread 'main' panicked at src/main.rs:2:5:",
		},
		"of Ruby, which goes on on the other stream": {
			[]string{"shop.rb:1:in `sell'", "NoMethodError: no cheese", "\tfrom shop.rb:9", "1> closing"}, "NoMethodError: no cheese",
		},
	} {
		var said Tail
		for _, line := range tc.lines {
			stream := "stderr"
			if rest, ok := strings.CutPrefix(line, "1> "); ok {
				stream, line = "stdout", rest
			}
			said.add(stream, line)
		}
		assert.Equal(t, tc.want, said.Reason(), name)
		if kept := said.lines(5); strings.HasPrefix(tc.want, "fatal") && (kept[len(kept)-1] != tc.want || slices.Contains(kept, "…")) {
			t.Errorf("%s: kept is %q", name, kept)
		}
	}
}

func TestWhatAnActionPrintsIsShownButForWhatItHasKept(t *testing.T) {
	for name, tc := range map[string]struct{ printed, shown, kept string }{
		"a line at the end":           {"creating\n{\"keep\":{\"id\":\"i-1\"}}\n", "creating\n", "i-1"},
		"a line without an end":       {"creating\n{\"keep\":{\"id\":\"i-1\"}}", "creating\n", "i-1"},
		"nothing else":                {`{"keep":{"id":"i-1"}}`, "", "i-1"},
		"a line that is not the last": {"{\"keep\":{\"id\":\"i-1\"}}\ndone\n", "{\"keep\":{\"id\":\"i-1\"}}\ndone\n", ""},
		"two of them":                 {"{\"keep\":{\"id\":\"i-1\"}}\n{\"keep\":{\"id\":\"i-2\"}}\n", "{\"keep\":{\"id\":\"i-1\"}}\n", "i-2"},
		"text after an empty line":    {"a\n\nb\n\n", "a\n\nb\n\n", ""},
		"another object":              {"{\"level\":\"info\"}\n", "{\"level\":\"info\"}\n", ""},
		"half of one":                 {`{"keep":{"id`, `{"keep":{"id`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var shown bytes.Buffer
			k := &keepLines{to: &shown}
			for _, c := range []byte(tc.printed) {
				_, _ = k.Write([]byte{c})
			}
			keep, err := k.end()
			id, _ := keep["id"].(string)
			assert.True(t, err == nil && shown.String() == tc.shown && id == tc.kept, "shown %q, kept %v, %v", shown.String(), keep, err)
		})
	}
}

func TestAnEarlierLineOfWhatMayBeSecretIsNotShown(t *testing.T) {
	var shown bytes.Buffer
	k := &keepLines{to: &shown, discreet: true}
	_, _ = k.Write([]byte("{\"keep\":{\"key\":\"s3cr3t\"}}\nfailed\n"))
	if keep, err := k.end(); keep != nil || err != nil || shown.String() != "{\"keep\": \"(secret)\"}\nfailed\n" {
		t.Errorf("%q, %v, %v", shown.String(), keep, err)
	}
}

func TestALineThatIsTooLongIsNeitherShownNorHeld(t *testing.T) {
	var shown bytes.Buffer
	k := &keepLines{to: &shown}
	_, _ = k.Write([]byte(`{"keep":{"key":"`))
	for range 3 * protocol.MaxKeepLine / 4096 {
		_, _ = k.Write([]byte(strings.Repeat("x", 4096)))
	}
	_, _ = k.Write([]byte("\"}}\nmore\n"))
	_, err := k.end()
	bad := (*protocol.AnswerError)(nil)
	assert.True(t, errors.As(err, &bad) && bad.Path == "keep" && shown.Len() <= 0, "%v, %d bytes are shown", err, shown.Len())
}

// However what is printed is cut, all is shown but the last line, if it has something kept.
func TestKeepLinesAgreeWithReadingAllAtOnce(t *testing.T) {
	lines := rapid.SampledFrom([]string{"", "text", "{", `{"keep":{"id":1}}`, ` {"keep" : {}}`, `{"keep":{}} x`, `{"kee`, "\r", strings.Repeat("long ", 50)})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(lines).Draw(t, "lines"), "\n")
		want, last := text, strings.TrimSuffix(text, "\n")
		last = last[strings.LastIndex(last, "\n")+1:]
		keep, ok, _ := protocol.DecodeKeep([]byte(last))
		if ok {
			want = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), last)
		}
		var shown bytes.Buffer
		k := &keepLines{to: &shown}
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "part")
			_, _ = k.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		got, err := k.end()
		if err != nil || (got == nil) != (keep == nil) || shown.String() != want {
			t.Fatalf("%q\nshown %q, kept %v, %v\nwant  %q, kept %v", text, shown.String(), got, err, want, keep)
		}
	})
}
