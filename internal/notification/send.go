package notification

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"
)

// The bounds of one try.
const (
	sendTime   = 15 * time.Second
	mostAnswer = 64 << 10 // bytes of an answer that are read
	mostShown  = 300      // bytes of what a program printed that an error shows
	mostSecret = 64 << 10 // bytes
)

// send sends a message by what the rule says.
func send(ctx context.Context, r Rule, m Message) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
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

// client follows no redirects, which would lead what is signed elsewhere.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// send posts a message. The signature is that of Standard Webhooks: HMAC-SHA256 with the key
// over id, time and body.
func (w *Webhook) send(ctx context.Context, m Message) error {
	var document any = m
	if w.Slack {
		document = map[string]string{"text": m.Text}
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
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL cannot be used")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "deployster")
	if w.KeyFile != "" {
		if err := sign(request.Header, w.KeyFile, m.ID, time.Now(), body); err != nil {
			return err
		}
	}
	answer, err := client.Do(request)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) { // which holds the URL, and that may be a secret
			err = of.Err
		}
		return fmt.Errorf("posting the message: %w", err)
	}
	defer answer.Body.Close() //nolint:errcheck // the answer counts
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, mostAnswer))
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("posting the message: the answer was %d", answer.StatusCode)
	}
	return nil
}

// sign adds the headers that say who sends the message, and when.
func sign(to http.Header, keyFile, id string, now time.Time, body []byte) error {
	text, err := secret(keyFile)
	if err != nil {
		return err
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
	if err != nil || len(key) < 24 {
		return fmt.Errorf("the key in %s must be at least 24 bytes in base64, as openssl rand -base64 32 makes it", keyFile)
	}
	at := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	to.Set("Webhook-Id", id)
	to.Set("Webhook-Timestamp", at)
	to.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return nil
}

// secret reads a file that holds a secret. It is read each time, so that it may be exchanged.
func secret(path string) (string, error) {
	file, err := os.Open(path)
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

func split(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("splitting %s: %w", address, err)
	}
	if port, err = strconv.Atoi(text); err != nil || port < 1 || port > 65535 || host == "" {
		return "", 0, fmt.Errorf("%s is not HOST:PORT", address)
	}
	return host, port, nil
}

func (e *Email) send(ctx context.Context, m Message) error {
	host, port, err := split(e.Server)
	if err != nil {
		return err
	}
	options := []mail.Option{mail.WithPort(port), mail.WithTLSPolicy(mail.TLSMandatory), mail.WithTimeout(sendTime)}
	if e.Plain {
		options[1] = mail.WithTLSPolicy(mail.NoTLS)
	}
	if port == 465 {
		options = append(options, mail.WithSSL())
	}
	if e.Username != "" {
		password, err := secret(e.PasswordFile)
		if err != nil {
			return err
		}
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(e.Username), mail.WithPassword(password))
	}
	to, err := mail.NewClient(host, options...)
	if err != nil {
		return fmt.Errorf("preparing to send mail: %w", err)
	}
	letter := mail.NewMsg()
	if err := errors.Join(letter.From(e.From), letter.To(e.To...)); err != nil {
		return fmt.Errorf("addressing mail: %w", err)
	}
	letter.Subject(m.Text)
	letter.SetMessageIDWithValue(m.ID + "." + m.Rule + "@deployster")
	details, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the message: %w", err)
	}
	letter.SetBodyString(mail.TypeTextPlain, m.Text+"\n\n"+string(details)+"\n")
	if err := to.DialAndSendWithContext(ctx, letter); err != nil {
		return fmt.Errorf("sending mail by %s: %w", e.Server, err)
	}
	return nil
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
	err = c.Run()
	switch {
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
