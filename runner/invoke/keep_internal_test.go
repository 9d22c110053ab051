package invoke

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/protocol"
)

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
			if err != nil || shown.String() != tc.shown || id != tc.kept {
				t.Errorf("shown %q, kept %v, %v", shown.String(), keep, err)
			}
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
	if bad := (*protocol.AnswerError)(nil); !errors.As(err, &bad) || bad.Path != "keep" || shown.Len() > 0 {
		t.Errorf("%v, %d bytes are shown", err, shown.Len())
	}
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
