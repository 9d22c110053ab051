package notification

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/internal/regularfile"
	"github.com/deployster-go/deployster/internal/webhook"
)

// The bounds of one try.
const (
	sendTime   = 15 * time.Second
	mostShown  = 300      // bytes of what a program printed that an error shows
	mostSecret = 64 << 10 // bytes
)

// send sends a message by what the rule says.
func send(ctx context.Context, r Rule, m Message) error {
	ctx, cancel := context.WithTimeoutCause(ctx, sendTime, fmt.Errorf("no answer within %s", sendTime))
	defer cancel()
	switch {
	case r.Webhook != nil:
		return r.Webhook.send(ctx, m)
	case r.Email != nil:
		return r.Email.send(ctx, m)
	default:
		return command(ctx, r.Command, m)
	}
}

// plain has Slack, and what is compatible, show a text as it is: what others wrote would make links
// of their own, and call everybody.
var plain = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// send posts a message, signed where there is a key.
func (w *Webhook) send(ctx context.Context, m Message) error {
	var document any = m
	if w.Slack {
		document = map[string]string{"text": plain.Replace(m.Text)}
	}
	body, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("encoding the message: %w", err)
	}
	to := w.URL
	if w.URLFile != "" {
		if to, err = secret(w.URLFile); err != nil {
			return err
		}
		if wrong := checkURL(to); wrong != "" {
			return fmt.Errorf("what %s holds %s", w.URLFile, wrong)
		}
	}
	key := ""
	if w.KeyFile != "" {
		if key, err = secret(w.KeyFile); err != nil {
			return err
		}
		if err := webhook.CheckKey(key); err != nil {
			return fmt.Errorf("what %s holds: %w", w.KeyFile, err)
		}
	}
	if _, err := webhook.Post(ctx, to, key, m.ID, time.Now(), body); err != nil {
		return fmt.Errorf("posting the message: %w", explain(err))
	}
	return nil
}

// secret reads a file that holds a secret. It is read each time, so that it may be exchanged.
func secret(path string) (string, error) {
	file, _, err := regularfile.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading a secret: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(file, mostSecret))
	if err != nil {
		return "", fmt.Errorf("reading a secret: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// command runs a program that gets the message on stdin.
func command(ctx context.Context, words []string, m Message) error {
	in, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encoding the message: %w", err)
	}
	printed := &tail{}
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(append(in, '\n')), io.Discard, printed
	c.WaitDelay = time.Second
	// What it has started ends with it when it takes too long.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	err = c.Run()
	switch {
	case errors.Is(err, exec.ErrWaitDelay):
		return nil // it has ended well, and left something running that has its output
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("running %s: it took longer than %s", words[0], sendTime)
	case err != nil && printed.text != "":
		return fmt.Errorf("running %s: %w: %s", words[0], err, printed.text)
	case err != nil:
		return fmt.Errorf("running %s: %w", words[0], err)
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct{ text string }

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.text += string(p)
	t.text = t.text[max(0, len(t.text)-mostShown):]
	return len(p), nil
}
