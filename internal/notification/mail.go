package notification

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"
)

// mostSaid is how many bytes a mail server may send in one conversation.
const mostSaid = 1 << 20

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

// send sends a letter. It has succeeded when the server has taken it: how the conversation ends
// then is of no matter, and what was taken is not sent again.
func (e *Email) send(ctx context.Context, m Message) error {
	letter, err := e.letter(m)
	if err != nil {
		return err
	}
	client, hide, err := e.client(ctx)
	if err != nil {
		return err
	}
	to, err := client.DialToSMTPClientWithContext(ctx)
	if err == nil {
		err = client.SendWithSMTPClient(to, letter)
		_ = client.CloseWithSMTPClient(to)
	}
	if err != nil {
		return fmt.Errorf("sending mail by %s: %s", e.Server, hide(explainMail(err).Error()))
	}
	return nil
}

// letter is a message as mail.
func (e *Email) letter(m Message) (*mail.Msg, error) {
	letter := mail.NewMsg()
	if err := errors.Join(letter.From(e.From), letter.To(e.To...)); err != nil {
		return nil, fmt.Errorf("addressing mail: %w", err)
	}
	letter.Subject(m.Text)
	letter.SetMessageIDWithValue(m.ID + "." + m.Rule + "@deployster")
	details, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the message: %w", err)
	}
	letter.SetBodyString(mail.TypeTextPlain, m.Text+"\n\n"+string(details)+"\n")
	return letter, nil
}

// submissionTLS is the port on which a connection begins with TLS.
const submissionTLS = 465

// client reaches the server. hide removes from what it says what it was sent as a secret: some
// repeat what they do not understand.
func (e *Email) client(ctx context.Context) (client *mail.Client, hide func(string) string, err error) {
	host, port, err := split(e.Server)
	if err != nil {
		return nil, nil, err
	}
	policy := mail.TLSMandatory
	switch {
	case port == submissionTLS:
		policy = mail.TLSOpportunistic // it is there already
	case e.Plain:
		policy = mail.NoTLS
	}
	dial := func(dialing context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(dialing, network, address)
		if err != nil {
			return nil, err
		}
		bounded := &conversation{Conn: c, left: mostSaid}
		bounded.until, _ = ctx.Deadline()
		context.AfterFunc(ctx, func() { _ = c.Close() })
		if port != submissionTLS {
			return bounded, nil
		}
		return tls.Client(bounded, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}), nil
	}
	options := []mail.Option{mail.WithPort(port), mail.WithTLSPolicy(policy), mail.WithTimeout(sendTime), mail.WithDialContextFunc(dial), mail.WithoutRset()}
	hide = func(text string) string { return text }
	if e.Username != "" {
		password, err := secret(e.PasswordFile)
		if err != nil {
			return nil, nil, err
		}
		if password == "" {
			return nil, nil, fmt.Errorf("reading a secret: %s is empty", e.PasswordFile)
		}
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(e.Username), mail.WithPassword(password))
		encoded := base64.StdEncoding.EncodeToString
		hide = strings.NewReplacer(encoded([]byte("\x00"+e.Username+"\x00"+password)), "…", encoded([]byte(password)), "…", password, "…").Replace
	}
	client, err = mail.NewClient(host, options...)
	if err != nil {
		return nil, nil, fmt.Errorf("preparing to send mail: %w", err)
	}
	return client, hide, nil
}

// conversation is a connection to a mail server, which ends in time however often its deadline
// is moved, and however much the server says.
type conversation struct {
	net.Conn
	until time.Time // zero is never
	left  int
}

// SetDeadline implements net.Conn.
func (c *conversation) SetDeadline(at time.Time) error {
	if !c.until.IsZero() && (at.IsZero() || at.After(c.until)) {
		at = c.until
	}
	return c.Conn.SetDeadline(at)
}

// errTooMuch is why a mail server is not heard any more.
var errTooMuch = fmt.Errorf("it says more than %d MiB", mostSaid>>20)

// Read implements net.Conn.
func (c *conversation) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTooMuch
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
