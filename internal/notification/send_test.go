package notification

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
