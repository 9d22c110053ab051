package notification

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"io"
	"log"
	"math/big"
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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	envrecord "github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
	"github.com/deployster-go/deployster/pipeline/record"
)

var message = Message{Version: 1, ID: "log-7", Rule: "team", On: Failed, Text: "pipeline/shop: revision 7 has failed: it broke", Target: "pipeline/shop", Seq: 7}

func file(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestAWebhookIsSigned(t *testing.T) {
	const key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	verifier, err := standardwebhooks.NewWebhook(key)
	require.NoError(t, err)
	var got Message
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, errors.Join(err, verifier.Verify(body, r.Header), json.Unmarshal(body, &got)))
		assert.Error(t, verifier.Verify(append(body, ' '), r.Header), "a body that was changed is verified, too")
	}))
	defer s.Close()
	err = send(t.Context(), Rule{Webhook: &Webhook{URL: s.URL, KeyFile: file(t, key+"\n")}}, message)
	assert.True(t, err == nil && got == message, "%+v %v", got, err)
	err = send(t.Context(), Rule{Webhook: &Webhook{URL: s.URL, KeyFile: file(t, "c2hvcnQ=")}}, message)
	assert.True(t, err != nil && !strings.Contains(err.Error(), "c2hvcnQ="), "with a short key: %v", err)
}

// What others called a revision neither calls a whole channel nor leads elsewhere.
func TestSlackGetsATextThatShowsNamesAsTheyAre(t *testing.T) {
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = string(body)
	}))
	defer s.Close()
	to := Rule{Webhook: &Webhook{URLFile: file(t, s.URL+"/hook\n"), Slack: true}}
	require.NoError(t, send(t.Context(), to, message))
	assert.Equal(t, `{"text":"pipeline/shop: revision 7 has failed: it broke"}`, got)
	m := message
	m.Text = "revision <!channel> <https://evil.example|7> & more"
	require.NoError(t, send(t.Context(), to, m))
	assert.JSONEq(t, `{"text":"revision &lt;!channel&gt; &lt;https://evil.example|7&gt; &amp; more"}`, got)
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
		assert.True(t, err != nil && !strings.Contains(err.Error(), "secret"), "%s: %v", to, err)
	}
	assert.False(t, followed, "the redirect was followed")
	for _, w := range []Webhook{{URLFile: file(t, "no-secret-url")}, {URLFile: "/none"}, {URL: s.URL, KeyFile: "/none"}} {
		err := send(t.Context(), Rule{Webhook: &w}, message)
		assert.True(t, err != nil && !strings.Contains(err.Error(), "secret-url"), "%+v: %v", w, err)
	}
}

func TestACommandGetsTheMessage(t *testing.T) {
	got := filepath.Join(t.TempDir(), "got")
	require.NoError(t, send(t.Context(), Rule{Command: []string{"sh", "-c", "cat > \"$0\"", got}}, message))
	text, err := os.ReadFile(got)
	var m Message
	err = errors.Join(err, json.Unmarshal(text, &m))
	assert.True(t, err == nil && m == message, "%s %v", text, err)
	err = send(t.Context(), Rule{Command: []string{"sh", "-c", "yes no | head -c 100000 >&2; echo broken >&2; exit 3"}}, message)
	assert.True(t, err != nil && strings.Contains(err.Error(), "exit status 3") && strings.HasSuffix(err.Error(), "broken\n"), "%v", err)
	assert.Error(t, send(t.Context(), Rule{Command: []string{"/none/program"}}, message), "a program that there is not was run")
}

// What a command leaves running does not make it one that failed, and would be started again.
func TestACommandMayLeaveSomethingRunning(t *testing.T) {
	left := filepath.Join(t.TempDir(), "left")
	err := send(t.Context(), Rule{Command: []string{"sh", "-c", "sleep 600 & echo $! > \"$0\"", left}}, message)
	text, read := os.ReadFile(left)
	pid, parsed := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, errors.Join(read, parsed))
	if err := errors.Join(err, syscall.Kill(pid, syscall.SIGKILL)); err != nil { // it runs still
		t.Error(err)
	}
}

func TestWhatACommandStartedEndsWithIt(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	held := must.Get(os.OpenFile(pipe, os.O_RDWR, 0))(t)
	from := must.Get(os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0))(t)
	defer from.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- send(ctx, Rule{Command: []string{"sh", "-c", "exec > \"$0\"; sleep 600 & echo begun; wait", pipe}}, message)
	}()
	require.NoError(t, from.SetReadDeadline(time.Now().Add(waittest.Limit)))
	line, err := bufio.NewReader(from).ReadString('\n')
	require.Equal(t, "begun\n", line, "%v %v", line, err)
	_ = held.Close()
	cancel()
	assert.Error(t, <-ended, "it was cut off, and has not failed")
	if rest, err := io.ReadAll(from); err != nil { // until nobody can write any more
		t.Errorf("%q, %v", rest, err)
	}
}

// speak is a mail server that does one thing with whoever comes.
func speak(t *testing.T, with func(net.Conn, *bufio.Reader)) *Email {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
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

// converse answers as a mail server without TLS does, until stop returns true of a line.
func converse(c net.Conn, in *bufio.Reader, stop func(line string, data bool) bool) {
	_, _ = io.WriteString(c, "220 mail.example\r\n")
	for data := false; ; {
		line, err := in.ReadString('\n')
		switch {
		case err != nil, stop(line, data):
			return
		case strings.HasPrefix(line, "DATA"):
			data = true
			_, _ = io.WriteString(c, "354 go on\r\n")
		case !data:
			_, _ = io.WriteString(c, "250 fine\r\n")
		}
	}
}

// mailbox takes one letter, and says nothing after that.
func mailbox(t *testing.T) (to *Email, letter <-chan string) {
	got := make(chan string, 1)
	return speak(t, func(c net.Conn, in *bufio.Reader) {
		var text strings.Builder
		converse(c, in, func(line string, _ bool) bool {
			if text.WriteString(line); line != ".\r\n" {
				return false
			}
			_, _ = io.WriteString(c, "250 taken\r\n")
			got <- text.String()
			return true
		})
	}), got
}

// A letter that a server has taken is sent, and not again because the server says nothing after that.
func TestALetterIsSent(t *testing.T) {
	to, letter := mailbox(t)
	to.To = append(to.To, "b@example.org")
	m := message
	m.Text = "pipeline/shop: ünd more"
	require.NoError(t, send(t.Context(), Rule{Email: to}, m))
	text := <-letter
	for _, want := range []string{"MAIL FROM:<d@example.org>", "RCPT TO:<a@example.org>", "RCPT TO:<b@example.org>", "Message-ID: <log-7.team@deployster>", "\"target\": \"pipeline/shop\""} {
		assert.Contains(t, text, want)
	}
}

func TestAMailServerThatSaysTooMuchIsNotHeard(t *testing.T) {
	for _, endless := range []string{"220 " + strings.Repeat("x", 60_000), strings.Repeat("220-more\r\n", 6000)} {
		e := speak(t, func(c net.Conn, _ *bufio.Reader) {
			for {
				if _, err := io.WriteString(c, endless); err != nil {
					return
				}
			}
		})
		assert.ErrorContains(t, send(t.Context(), Rule{Email: e}, message), "it says more than 1 MiB")
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
			converse(c, in, func(line string, data bool) bool { return strings.HasPrefix(line, at) && (data || at != ".") })
		})
		err := send(ctx, Rule{Email: e}, message)
		assert.True(t, err != nil && !strings.Contains(err.Error(), "timeout"), "it hangs at %q: %v", at, err)
	}
}

// Servers repeat what they do not understand, and the log is for all to read.
func TestAPasswordThatAServerRepeatsIsNotTold(t *testing.T) {
	e := Email{Server: "mail.example:587", Username: "ada", PasswordFile: file(t, "secret-word")}
	_, hide, err := e.client(t.Context())
	require.NoError(t, err)
	said := hide("500 what is AUTH PLAIN AGFkYQBzZWNyZXQtd29yZA== or c2VjcmV0LXdvcmQ= or secret-word")
	assert.Equal(t, "500 what is AUTH PLAIN … or … or …", said)
	e.PasswordFile = file(t, "\n")
	_, _, err = e.client(t.Context())
	assert.True(t, err != nil && strings.Contains(err.Error(), "is empty"), "%v", err)
}

func TestWhatIsHeldIsToldWithItsReason(t *testing.T) {
	for target, name := range map[deploylog.Target]string{
		"environment/shop/prod": envrecord.HostsHeld, "environment/shop/test": envrecord.EnvironmentPaused, "host-group/shop/all": record.MembersHeld, "pipeline/shop": record.PipelinePaused,
	} {
		e := deploylog.Event{Target: target, Name: name, Data: []byte(`{"reason":"9 of 10 hosts would leave"}`)}
		m := (Rule{}).message("log", e, Held)
		assert.True(t, strings.HasSuffix(m.Text, ": 9 of 10 hosts would leave") && strings.HasPrefix(m.Text, string(target)), "%s is told as %q", name, m.Text)
	}
}

// What is in the place of a secret holds up nobody: a pipe to which nobody writes, or a device
// that never ends.
func TestASecretIsReadFromAFileAlone(t *testing.T) {
	dir := t.TempDir()
	pipe, file, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "file"), filepath.Join(dir, "link")
	require.NoError(t, errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(file, []byte(" word\n"), 0o600), os.Symlink(file, link)))
	for _, path := range []string{pipe, "/dev/zero", dir} {
		text, err := secret(path)
		assert.True(t, err != nil && strings.Contains(err.Error(), "open "+path+": it is a "), "%s: %q, %v", path, text, err)
	}
	assert.ErrorIs(t, must.Fail(secret(filepath.Join(dir, "none"))), os.ErrNotExist)
	for _, path := range []string{file, link} {
		text, err := secret(path)
		assert.True(t, err == nil && text == "word", "%s: %q, %v", path, text, err)
	}
}

// certificate is one for a name, which has signed itself.
func certificate(t *testing.T, name string, ends time.Time) tls.Certificate {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: ends.Add(-48 * time.Hour), NotAfter: ends,
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if ip := net.ParseIP(name); ip != nil {
		about.IPAddresses = []net.IP{ip}
	} else {
		about.DNSNames = []string{name}
	}
	signed := must.Get(x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key))(t)
	return tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}
}

func TestAWrongCertificateIsExplained(t *testing.T) {
	later := time.Now().Add(24 * time.Hour)
	for name, tc := range map[string]struct {
		has  tls.Certificate
		want string
	}{
		"of nobody":    {certificate(t, "127.0.0.1", later), "SSL_CERT_FILE"},
		"another name": {certificate(t, "mail.example", later), "write the name that its certificate is for"},
		"expired":      {certificate(t, "127.0.0.1", time.Now().Add(-time.Hour)), "has to renew its certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			heard := make(chan string, 1)
			e := speak(t, func(c net.Conn, in *bufio.Reader) {
				_, _ = io.WriteString(c, "220 mail.example\r\n")
				for {
					line, err := in.ReadString('\n')
					switch {
					case err != nil:
						close(heard)
						return
					case strings.HasPrefix(line, "EHLO"):
						_, _ = io.WriteString(c, "250-mail.example\r\n250 STARTTLS\r\n")
					case strings.HasPrefix(line, "STARTTLS"):
						_, _ = io.WriteString(c, "220 go on\r\n")
						text, _ := io.ReadAll(tls.Server(c, &tls.Config{Certificates: []tls.Certificate{tc.has}}))
						heard <- string(text)
						return
					}
				}
			})
			e.Plain = false
			err := send(t.Context(), Rule{Email: e}, message)
			assert.True(t, err != nil && strings.Contains(err.Error(), tc.want) && strings.Contains(err.Error(), e.Server), "mail: %v", err)
			assert.Empty(t, <-heard, "it was told")

			s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was told") }))
			s.TLS = &tls.Config{Certificates: []tls.Certificate{tc.has}}
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.StartTLS()
			defer s.Close()
			assert.ErrorContains(t, send(t.Context(), Rule{Webhook: &Webhook{URL: s.URL}}, message), tc.want, "webhook")
		})
	}
}

// Mail that nobody allowed to be read by others is not sent, and the error says how it could be.
func TestAMailServerWithoutTLSIsExplained(t *testing.T) {
	to, _ := mailbox(t)
	to.Plain = false
	err := send(t.Context(), Rule{Email: to}, message)
	assert.True(t, err != nil && strings.Contains(err.Error(), "does not offer STARTTLS") && strings.Contains(err.Error(), "plain: true"), "%v", err)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	assert.ErrorContains(t, send(t.Context(), Rule{Webhook: &Webhook{URL: strings.Replace(s.URL, "http:", "https:", 1)}}, message), "check the port")
}
