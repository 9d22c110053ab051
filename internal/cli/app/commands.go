package app

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/manifest/vars"
)

// The bounds of a command that prints the value of a variable.
const (
	commandTime    = time.Minute
	commandOutput  = 1 << 20 // bytes of its stdout
	commandComment = 2000    // bytes of its stderr that are quoted
)

// Commands are those that print values of variables. Each is run once, however often what
// it prints is needed: it may ask somebody for something. The zero value is ready for use.
type Commands struct {
	mu   sync.Mutex
	done map[string]printed
}

// printed is what a command came to.
type printed struct {
	text string
	err  error
}

// In returns what runs commands in a directory, without a shell, and returns what they print
// without the end of the last line.
func (c *Commands) In(dir string) func(argv []string) (string, error) {
	return func(argv []string) (string, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		key := strings.Join(argv, "\x00")
		if _, known := c.done[key]; !known {
			if c.done == nil {
				c.done = map[string]printed{}
			}
			text, err := run(dir, argv, commandTime)
			c.done[key] = printed{text, err}
		}
		return c.done[key].text, c.done[key].err
	}
}

var errTooLong = fmt.Errorf("it printed more than %d bytes", commandOutput)

// run runs a command, with all that it starts at most for so long.
func run(dir string, argv []string, most time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	out, comment := &bounded{most: commandOutput, full: cancel}, &bounded{most: commandComment}
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir, c.Stdout, c.Stderr, c.WaitDelay = dir, out, comment, time.Second
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	err := c.Run()
	switch {
	case out.over:
		err = errTooLong
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("it did not end within %s", most)
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // it has ended well, and left something running that has its output
		return vars.WithoutLineEnd(string(out.text)), nil
	}
	said := strings.Join(strings.Fields(strings.ToValidUTF8(string(comment.text), "")), " ")
	if said != "" {
		said = ": " + said
	}
	return "", fmt.Errorf("running %s: %w%s", phrase.Cut(argv[0], 200), err, said)
}

// bounded keeps the beginning of what is written to it.
type bounded struct {
	most int
	full func() // may be nil; called when more is written
	text []byte
	over bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	room := b.most - len(b.text)
	b.text = append(b.text, p[:min(room, len(p))]...)
	if len(p) > room && !b.over {
		b.over = true
		if b.full != nil {
			b.full()
		}
	}
	return len(p), nil
}
