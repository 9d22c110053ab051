package invoke

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

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
		if got := said.Reason(); got != tc.want {
			t.Errorf("%s: the reason is %q", name, got)
		}
		if kept := said.lines(5); strings.HasPrefix(tc.want, "fatal") && (kept[len(kept)-1] != tc.want || slices.Contains(kept, "…")) {
			t.Errorf("%s: kept is %q", name, kept)
		}
	}
}
