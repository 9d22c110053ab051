package phrase_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/internal/phrase"
)

func TestCount(t *testing.T) {
	for want, n := range map[string]int{"0 hosts": 0, "1 host": 1, "2 hosts": 2} {
		if got := phrase.Count(n, "host"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := phrase.Count(2, "property"); got != "2 properties" {
		t.Errorf("%q", got)
	}
}

func TestList(t *testing.T) {
	many := strings.Split(strings.Repeat("a ", 22)+"a", " ")
	for want, names := range map[string][]string{
		"none": nil, "a": {"a"}, "b, a": {"b", "a"}, strings.Repeat("a, ", 19) + "a and 3 more": many,
	} {
		if got := phrase.List(names); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for want, n := range map[string]int64{"0 B": 0, "1023 B": 1023, "1 KiB": 1 << 10, "1.5 KiB": 1536, "512 MiB": 512 << 20, "4096 TiB": 4 << 50} {
		if got := phrase.Size(n); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPlainTextCannotDriveATerminal(t *testing.T) {
	for text, want := range map[string]string{"": "", "naïve – ok": "naïve – ok", "a\nb\x1b[2J\x7f\u009b": "a b [2J  ", "a\u202eb\u202c": "ab"} {
		if got := phrase.Plain(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for text, want := range map[string]string{"": "", "äbc": "äbc", "äbcd": "äbc…", "a\xff\xffd": "a\xff\xff…"} {
		if got := phrase.Cut(text, 3); got != want {
			t.Errorf("%q is cut to %q, want %q", text, got, want)
		}
	}
}

func TestKind(t *testing.T) {
	for text, want := range map[string]string{
		"null": "null", "true": "a boolean", `"x"`: "a string", "1": "a number", "[1]": "a list", "{}": "an object",
	} {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if got := phrase.Kind(v); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}

func TestMoment(t *testing.T) {
	at := time.Date(2026, 1, 31, 15, 4, 5, 6, time.Local)
	if got := phrase.Moment(at.UTC()); got != "2026-01-31 15:04:05" {
		t.Errorf("%q", got)
	}
}

func TestTook(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0.0s": -time.Second, "0.2s": 200 * time.Millisecond, "59.9s": 59900 * time.Millisecond, "1m00s": 59990 * time.Millisecond, "3m05s": 185 * time.Second, "1h02m": 62 * time.Minute,
	} {
		if got := phrase.Took(d); got != want {
			t.Errorf("%s took %q, want %q", d, got, want)
		}
	}
}
