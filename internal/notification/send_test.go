package notification

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

var message = Message{Version: 1, ID: "log-7", Rule: "team", On: Failed, Text: "pipeline/shop: revision 7 has failed: it broke", Target: "pipeline/shop", Seq: 7}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is signed is verified by another program of the same standard.
func TestAWebhookIsSigned(t *testing.T) {
	const key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	verifier, err := standardwebhooks.NewWebhook(key)
	if err != nil {
		t.Fatal(err)
	}
	var got Message
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err := errors.Join(err, verifier.Verify(body, r.Header), json.Unmarshal(body, &got)); err != nil {
			t.Error(err)
		}
		if err := verifier.Verify(append(body, ' '), r.Header); err == nil {
			t.Error("a body that was changed is verified, too")
		}
	}))
	defer s.Close()
	if err := send(t.Context(), Rule{Webhook: &Webhook{URL: s.URL, KeyFile: file(t, key+"\n")}}, message); err != nil || got != message {
		t.Errorf("%+v %v", got, err)
	}
	if err := send(t.Context(), Rule{Webhook: &Webhook{URL: s.URL, KeyFile: file(t, "c2hvcnQ=")}}, message); err == nil || strings.Contains(err.Error(), "c2hvcnQ=") {
		t.Errorf("with a short key: %v", err)
	}
}

func TestSlackGetsAText(t *testing.T) {
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = string(body)
	}))
	defer s.Close()
	if err := send(t.Context(), Rule{Webhook: &Webhook{URLFile: file(t, s.URL+"/hook\n"), Slack: true}}, message); err != nil || got != `{"text":"pipeline/shop: revision 7 has failed: it broke"}` {
		t.Errorf("%s %v", got, err)
	}
}

// What others called a revision neither calls a whole channel nor leads elsewhere.
func TestSlackShowsNamesAsTheyAre(t *testing.T) {
	got := ""
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body struct{ Text string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		got = body.Text
	}))
	defer s.Close()
	m := message
	m.Text = "revision <!channel> <https://evil.example|7> & more"
	if err := send(t.Context(), Rule{Webhook: &Webhook{URL: s.URL, Slack: true}}, m); err != nil || got != "revision &lt;!channel&gt; &lt;https://evil.example|7&gt; &amp; more" {
		t.Errorf("%q, %v", got, err)
	}
}

// A URL may be a secret: no error shows it. A redirect is not followed.
func TestAWebhookThatDoesNotTakeTheMessageFails(t *testing.T) {
	followed := false
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "elsewhere"):
			followed = true
		case strings.Contains(r.URL.Path, "moved"):
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		default:
			http.Error(w, "secret-of-the-receiver", http.StatusInternalServerError)
		}
	}))
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	defer s.Close()
	for _, to := range []string{s.URL + "/secret-path", s.URL + "/moved/secret-path", closed.URL + "/secret-path"} {
		err := send(t.Context(), Rule{Webhook: &Webhook{URL: to}}, message)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", to, err)
		}
	}
	if followed {
		t.Error("the redirect was followed")
	}
	for _, w := range []Webhook{{URLFile: file(t, "no-secret-url")}, {URLFile: "/none"}, {URL: s.URL, KeyFile: "/none"}} {
		if err := send(t.Context(), Rule{Webhook: &w}, message); err == nil || strings.Contains(err.Error(), "secret-url") {
			t.Errorf("%+v: %v", w, err)
		}
	}
}

func TestACommandGetsTheMessage(t *testing.T) {
	got := filepath.Join(t.TempDir(), "got")
	if err := send(t.Context(), Rule{Command: []string{"sh", "-c", "cat > \"$0\"", got}}, message); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(got)
	var m Message
	if err := errors.Join(err, json.Unmarshal(text, &m)); err != nil || m != message {
		t.Errorf("%s %v", text, err)
	}
	if err := send(t.Context(), Rule{Command: []string{"sh", "-c", "yes no | head -c 100000 >&2; echo broken >&2; exit 3"}}, message); err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.HasSuffix(err.Error(), "broken\n") {
		t.Error(err)
	}
	if err := send(t.Context(), Rule{Command: []string{"/none/program"}}, message); err == nil {
		t.Error("a program that there is not was run")
	}
}

// What a command leaves running does not make it one that failed, and would be started again.
func TestACommandMayLeaveSomethingRunning(t *testing.T) {
	left := filepath.Join(t.TempDir(), "left")
	err := send(t.Context(), Rule{Command: []string{"sh", "-c", "sleep 600 & echo $! > \"$0\"", left}}, message)
	text, read := os.ReadFile(left)
	pid, parsed := strconv.Atoi(strings.TrimSpace(string(text)))
	if err := errors.Join(read, parsed); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(err, syscall.Kill(pid, syscall.SIGKILL)); err != nil { // it runs still
		t.Error(err)
	}
}

// A command that takes too long ends with all that it has started.
func TestWhatACommandStartedEndsWithIt(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- send(ctx, Rule{Command: []string{"sh", "-c", "exec > \"$0\"; sleep 600 & echo begun; wait", pipe}}, message)
	}()
	if err := from.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(from).ReadString('\n'); line != "begun\n" {
		t.Fatal(line, err)
	}
	_ = held.Close()
	cancel()
	if err := <-ended; err == nil {
		t.Error("it was cut off, and has not failed")
	}
	if rest, err := io.ReadAll(from); err != nil { // until nobody can write any more
		t.Errorf("%q, %v", rest, err)
	}
}

// mailbox takes one letter as a mail server does, without TLS.
func mailbox(t *testing.T) (address string, letter <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	got := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		say := func(text string) { _, _ = fmt.Fprintf(c, "%s\r\n", text) }
		in := bufio.NewScanner(c)
		say("220 mail.example")
		var text strings.Builder
		for data := false; in.Scan(); {
			switch line := in.Text(); {
			case data && line == ".":
				data = false
				say("250 taken")
				got <- text.String()
			case data:
				text.WriteString(line + "\n")
			case strings.HasPrefix(line, "DATA"):
				data = true
				say("354 go on")
			case strings.HasPrefix(line, "QUIT"):
				say("221 bye")
				return
			default:
				text.WriteString(line + "\n")
				say("250 fine")
			}
		}
	}()
	return l.Addr().String(), got
}

func TestALetterIsSent(t *testing.T) {
	address, letter := mailbox(t)
	m := message
	m.Text = "pipeline/shop: ünd more"
	if err := send(t.Context(), Rule{Email: &Email{Server: address, From: "d@example.org", To: []string{"a@example.org", "b@example.org"}, Plain: true}}, m); err != nil {
		t.Fatal(err)
	}
	text := <-letter
	for _, want := range []string{"MAIL FROM:<d@example.org>", "RCPT TO:<a@example.org>", "RCPT TO:<b@example.org>", "Message-ID: <log-7.team@deployster>", "\"target\": \"pipeline/shop\""} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	address, _ = mailbox(t)
	if err := send(t.Context(), Rule{Email: &Email{Server: address, From: "d@example.org", To: []string{"a@example.org"}}}, m); err == nil {
		t.Error("a letter was sent in plain text, though nobody said that it may be")
	}
}

// speak is a mail server that does one thing with whoever comes.
func speak(t *testing.T, with func(net.Conn, *bufio.Reader)) *Email {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		with(c, bufio.NewReader(c))
	}()
	return &Email{Server: l.Addr().String(), From: "d@example.org", To: []string{"a@example.org"}, Plain: true}
}

// A server that never comes to an end takes no more than it may.
func TestAMailServerThatSaysTooMuchIsNotHeard(t *testing.T) {
	for _, endless := range []string{"220 " + strings.Repeat("x", 60_000), strings.Repeat("220-more\r\n", 6000)} {
		e := speak(t, func(c net.Conn, _ *bufio.Reader) {
			for {
				if _, err := io.WriteString(c, endless); err != nil {
					return
				}
			}
		})
		if err := send(t.Context(), Rule{Email: e}, message); err == nil || !strings.Contains(err.Error(), "it says more than 1 MiB") {
			t.Error(err)
		}
	}
}

// Whoever stops the server does not wait for one that hangs, whatever it was asked for.
func TestAMailServerThatHangsIsLeft(t *testing.T) {
	for _, at := range []string{"", "EHLO", "MAIL", "RCPT", "DATA", "."} {
		ctx, cancel := context.WithCancel(t.Context())
		e := speak(t, func(c net.Conn, in *bufio.Reader) {
			defer in.ReadString('\n') // until it is left
			defer cancel()
			if at == "" {
				return
			}
			_, _ = io.WriteString(c, "220 mail.example\r\n")
			for data := false; ; {
				line, err := in.ReadString('\n')
				switch {
				case err != nil, strings.HasPrefix(line, at) && (data || at != "."):
					return
				case strings.HasPrefix(line, "DATA"):
					data = true
					_, _ = io.WriteString(c, "354 go on\r\n")
				case !data:
					_, _ = io.WriteString(c, "250 fine\r\n")
				}
			}
		})
		if err := send(ctx, Rule{Email: e}, message); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("it hangs at %q: %v", at, err)
		}
	}
}

// What a server has taken is not sent again because it says nothing after that.
func TestALetterThatWasTakenIsSent(t *testing.T) {
	e := speak(t, func(c net.Conn, in *bufio.Reader) {
		_, _ = io.WriteString(c, "220 mail.example\r\n")
		for data := false; ; {
			line, err := in.ReadString('\n')
			switch {
			case err != nil:
				return
			case line == ".\r\n":
				_, _ = io.WriteString(c, "250 taken\r\n")
				return
			case strings.HasPrefix(line, "DATA"):
				data = true
				_, _ = io.WriteString(c, "354 go on\r\n")
			case !data:
				_, _ = io.WriteString(c, "250 fine\r\n")
			}
		}
	})
	if err := send(t.Context(), Rule{Email: e}, message); err != nil {
		t.Error(err)
	}
}

// Servers repeat what they do not understand, and the log is for all to read.
func TestAPasswordThatAServerRepeatsIsNotTold(t *testing.T) {
	e := Email{Server: "mail.example:587", Username: "ada", PasswordFile: file(t, "secret-word")}
	_, hide, err := e.client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	said := hide("500 what is AUTH PLAIN AGFkYQBzZWNyZXQtd29yZA== or c2VjcmV0LXdvcmQ= or secret-word")
	if said != "500 what is AUTH PLAIN … or … or …" {
		t.Error(said)
	}
	e.PasswordFile = file(t, "\n")
	if _, _, err := e.client(t.Context()); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Error(err)
	}
}
