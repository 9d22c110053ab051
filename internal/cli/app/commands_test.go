package app

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCommandsPrintValues(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		script     string
		want, says string
		within     time.Duration
	}{
		{script: "echo hush-hush; echo not this >&2", want: "hush-hush"},
		{script: "printf 'a\nb\r\n'", want: "a\nb"},
		{script: "true"},
		{script: "pwd", want: dir},
		{script: "cat", want: ""}, // nobody is asked
		{script: "sleep 1000 & echo done", want: "done"},
		{script: "echo part; echo no such entry >&2; exit 3", says: "running sh: exit status 3: no such entry"},
		{script: "yes", says: "running sh: it printed more than 1048576 bytes"},
		{script: "yes >&2; exit 1", says: "running sh: it did not end within 2s: y y y", within: 2 * time.Second},
		{script: "trap '' TERM; sleep 1000", says: "running sh: it did not end within 2s", within: 2 * time.Second},
	} {
		began := time.Now()
		got, err := run(dir, []string{"sh", "-c", c.script}, cmp.Or(c.within, time.Minute))
		switch {
		case c.says == "" && (err != nil || got != c.want):
			t.Errorf("%s: %.100q %v", c.script, got, err)
		case c.says != "" && (err == nil || !strings.HasPrefix(err.Error(), c.says) || len(err.Error()) > 3000):
			t.Errorf("%s: %.100q %.300v", c.script, got, err)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("%s took %s", c.script, took)
		}
	}
	if _, err := run(dir, []string{"no-such-program"}, time.Minute); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Error(err)
	}
}

func TestACommandIsRunOnce(t *testing.T) {
	dir := t.TempDir()
	var commands Commands
	for range 3 {
		if got, err := commands.In(dir)([]string{"sh", "-c", "echo x >> ran; cat ran"}); err != nil || got != "x" {
			t.Errorf("%q %v", got, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "ran")); string(text) != "x\n" {
		t.Errorf("%q %v", text, err)
	}
}
