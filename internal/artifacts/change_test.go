package artifacts_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/artifacts"
)

// changing is a context that changes a directory when it is looked at for the nth time, as
// something that a job left running does.
type changing struct {
	context.Context
	after  int
	change func()
}

func (c *changing) Err() error {
	if c.after--; c.after == 0 {
		c.change()
	}
	return c.Context.Err()
}

func TestWhatChangesWhileItIsReadIsRefused(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	changes := map[string]func(dir string) error{
		"longer":       func(dir string) error { return appendTo(filepath.Join(dir, "a"), "more") },
		"shorter":      func(dir string) error { return os.Truncate(filepath.Join(dir, "a"), 10) },
		"other bytes":  func(dir string) error { return overwrite(filepath.Join(dir, "a")) },
		"another file": func(dir string) error { return os.WriteFile(filepath.Join(dir, "new"), nil, 0o600) },
		"a file less":  func(dir string) error { return os.Remove(filepath.Join(dir, "z")) },
		"a link": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "z")), os.Symlink("/etc/passwd", filepath.Join(dir, "z")))
		},
		"a link inside": func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "m")), os.Symlink("n", filepath.Join(dir, "m")))
		},
		"a dir for file": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "z")), os.Mkdir(filepath.Join(dir, "z"), 0o700))
		},
	}
	for what, change := range changes {
		for after := 3; after <= 6; after++ { // once it is listed
			t.Run(fmt.Sprint(what, after), func(t *testing.T) {
				s, store := newStore(t)
				dir := write(t, map[string]string{"a": big, "m/x": "1", "n/x": "2", "z": big})
				waitForClock(t, dir)
				ctx := &changing{t.Context(), after, func() { must(t, change(dir)) }}
				a, err := s.Collect(ctx, dir, artifacts.Limits{})
				refused := new(artifacts.RefusedError)
				assert.True(t, errors.As(err, &refused) && refused.Path != "", "it is %v, %v", a, err)
				wantNothingHalf(t, store)
			})
		}
	}
}

// waitForClock returns when what changes has another time than what is in a directory.
func waitForClock(t *testing.T, dir string) {
	t.Helper()
	was, err := os.Stat(filepath.Join(dir, "z"))
	must(t, err)
	clock := filepath.Join(t.TempDir(), "clock")
	for {
		must(t, os.WriteFile(clock, []byte("x"), 0o600))
		if is, err := os.Stat(clock); err != nil || is.ModTime().After(was.ModTime().Add(20*time.Millisecond)) {
			must(t, err)
			return
		}
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
