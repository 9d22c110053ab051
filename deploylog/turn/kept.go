package turn

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// The times after which a caller says which process it waits for.
const (
	Silent = 1500 * time.Millisecond // how long a caller waits before it says so
	Repeat = 30 * time.Second        // and until it is told again
)

// Kept is the turn to write, which another process may keep. Only one has it at a time. One that was
// stopped in the midst of that, by Ctrl-Z, a debugger or a machine that froze, keeps it: the others say
// who has it, and wait for as long as their callers do.
type Kept struct {
	Log    string // which one it is, for people
	Logger *slog.Logger
	Holder func() string // names the process that has the turn; "" if it was given back

	by atomic.Pointer[string] // nil unless another process is waited for, and for long
}

// During calls wait, which waits for the turn, and tells who has it if that takes long.
func (t *Kept) During(wait func() error) error {
	began := time.Now()
	var mu sync.Mutex
	over := false
	var timer *time.Timer
	tell := func() {
		by := t.Holder()
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		timer.Reset(Repeat)
		if by == "" { // it has changed hands meanwhile
			timer.Reset(Silent)
			return
		}
		t.by.Store(&by)
		t.Logger.Warn("the turn to write is kept by "+by+": what is to be recorded waits for it", "path", t.Log, "for", time.Since(began).Truncate(time.Second).String())
	}
	mu.Lock()
	timer = time.AfterFunc(Silent, tell)
	mu.Unlock()
	err := wait()
	mu.Lock()
	defer mu.Unlock()
	over = true
	timer.Stop()
	if t.by.Swap(nil) != nil && err == nil {
		t.Logger.Warn("the turn to write came", "path", t.Log, "after", time.Since(began).Truncate(time.Second).String())
	}
	return err
}

// By returns who has the turn, while that is waited for for long; or "".
func (t *Kept) By() string {
	if by := t.by.Load(); by != nil {
		return *by
	}
	return ""
}

// Explain adds who has the turn to the error of a caller that did not wait for longer.
func (t *Kept) Explain(err error) error {
	by := t.by.Load()
	if by == nil || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return err
	}
	return &deploylog.KeptError{By: *by, Err: err}
}

// Command returns the words of a command before its first flag, which may hold a secret.
func Command(args []string) string {
	const most = 4
	if len(args) == 0 {
		return ""
	}
	words := []string{filepath.Base(args[0])}
	for _, word := range args[1:] {
		if strings.HasPrefix(word, "-") || strings.Contains(word, "=") || len(words) == most {
			break
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}
