// Package client is a deployment log that is read through a server, as if it were here.
// Nothing is appended to it: who may not write the log sends commands to its server, which
// decides and records.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
)

// Options are how a server is reached.
type Options struct {
	Server string // https://HOST, http://HOST of this machine, or unix:PATH
	Token  string // "" is none, for who is known by the socket or a certificate

	Certificate *tls.Certificate // that is shown to a server that asks for one; nil is none

	Idle time.Duration // how long what is sent may make no progress; 0 is 2 minutes

	Notice func(text string) // receives what a request waits for; may be nil
}

// Client is a server of a log.
type Client struct {
	server string // as it was named
	base   string
	token  string
	idle   time.Duration
	notice func(text string)
	http   *http.Client
}

// ErrRefused is wrapped where a server refuses what is asked of it.
var ErrRefused = errors.New("refused")

// Refusal is why a server refuses something, as it says.
type Refusal struct {
	Status int
	Detail string
	log    string // of the server; "" where it does not say
}

// Error is what the server says.
func (r *Refusal) Error() string { return r.Detail }

// Invalid reports whether what was asked for names nothing that there is, or cannot be meant.
func (r *Refusal) Invalid() bool {
	return r.Status == http.StatusNotFound || r.Status == http.StatusUnprocessableEntity
}

// lasts reports whether the same would be refused again later.
func (r *Refusal) lasts() bool {
	return r.Status != http.StatusTooManyRequests && r.Status < http.StatusInternalServerError
}

// Unwrap returns ErrRefused.
func (*Refusal) Unwrap() error { return ErrRefused }

// headerTimeout is how long a server may take to begin its answer.
const headerTimeout = 2 * time.Minute

// New is a server that is not asked yet. A token is not sent where others could read it.
func New(o Options) (*Client, error) {
	c := &Client{server: o.Server, token: o.Token, idle: cmp.Or(o.Idle, headerTimeout), notice: o.Notice, base: strings.TrimSuffix(o.Server, "/")}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 30 * time.Second, ResponseHeaderTimeout: headerTimeout,
		ExpectContinueTimeout: headerTimeout, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
	}
	if o.Certificate != nil {
		transport.TLSClientConfig = &tls.Config{Certificates: []tls.Certificate{*o.Certificate}, MinVersion: tls.VersionTLS12}
	}
	if path, is := strings.CutPrefix(o.Server, "unix:"); is {
		path = strings.TrimPrefix(path, "//")
		if path == "" {
			return nil, errors.New("unix: names no socket: it is unix:PATH")
		}
		c.base = "http://socket"
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	} else if err := c.check(); err != nil {
		return nil, err
	}
	c.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // what is elsewhere gets no token
	}}
	return c, nil
}

// check refuses addresses that cannot be meant.
func (c *Client) check() error {
	u, err := url.Parse(c.base)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%q is no server: it is https://HOST, http://HOST of this machine, or unix:PATH", c.server)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("the address of a server has neither user nor query: a token is in DEPLOYSTER_TOKEN, or in the file that DEPLOYSTER_TOKEN_FILE names")
	case u.Scheme == "http" && c.token != "" && !local(u.Hostname()):
		return fmt.Errorf("the token would be sent to %s for all to read: use https, or the address of this machine", c.server)
	}
	return nil
}

// local reports whether a name is of this machine.
func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Name is what the server is called.
func (c *Client) Name() string { return c.server }

// Is reports whether an address is that of the server, however it is written.
func (c *Client) Is(address string) bool { return canonical(address) == canonical(c.server) }

// canonical is the one way of writing an address that reaches the same as others.
func canonical(address string) string {
	if path, is := strings.CutPrefix(address, "unix:"); is {
		return "unix:" + filepath.Clean(strings.TrimPrefix(path, "//"))
	}
	u, err := url.Parse(strings.TrimSuffix(address, "/"))
	if err != nil {
		return address
	}
	u.Host = strings.ToLower(u.Host)
	if port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]; port != "" {
		u.Host = strings.TrimSuffix(u.Host, port)
	}
	return u.String()
}

// maxAnswer is how much of an answer is read that is no stream.
const maxAnswer = 64 << 20

// request is what is asked for.
type request struct {
	method, path string
	query        url.Values
	body         []byte
	stream       io.Reader // in the place of the body; it is sent once
	length       int64     // of the stream
	kind         string    // of the body; "" is JSON
	idle         *idle     // of which sending the body is progress; may be nil
	header       http.Header
	signed       bool // it says itself who asks
	once         bool // who asks sends it again
}

// do asks for something, and returns the answer of a server that gives it. What changes nothing, or
// the same however often it is sent, is sent again while what is before the server reaches none.
func (c *Client) do(ctx context.Context, r request) (answer *http.Response, err error) {
	send := func() error {
		answer, err = c.send(ctx, r)
		return err
	}
	if r.once || r.stream != nil || r.method != http.MethodGet && r.method != http.MethodPut {
		return answer, send()
	}
	pause := firstPause
	for n := 1; ; n++ {
		if err := send(); n == tries || !errors.Is(err, errBetween) {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// send sends a request once.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	if c.notice != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: c.interim})
	}
	address := c.base + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	asked, err := http.NewRequestWithContext(ctx, r.method, address, bytes.NewReader(r.body))
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", c.server, err)
	}
	if r.stream != nil {
		asked.Body, asked.GetBody, asked.ContentLength = io.NopCloser(r.idle.progress(r.stream)), nil, r.length
		if r.length == 0 {
			asked.Body = http.NoBody
		}
	}
	if r.idle != nil && r.body != nil { // the length of the request is known already
		again := asked.GetBody
		asked.Body = io.NopCloser(r.idle.progress(asked.Body))
		asked.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			return io.NopCloser(r.idle.progress(body)), err
		}
	}
	for name, values := range r.header {
		asked.Header[name] = values
	}
	if c.notice != nil {
		asked.Header.Set(waits, "tell")
	}
	if r.body != nil || r.stream != nil {
		asked.Header.Set("Content-Type", "application/json")
		if r.kind != "" {
			asked.Header.Set("Content-Type", r.kind)
		}
	}
	if c.token != "" {
		asked.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(asked)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) && r.idle != nil {
			err = cause
		}
		return nil, fmt.Errorf("server %s: %w", c.server, err)
	}
	if answer.StatusCode/100 == 2 {
		return answer, nil
	}
	defer answer.Body.Close() //nolint:errcheck // it is read only
	return nil, c.refusal(answer, r)
}

// waits is the header by which a request asks to be told for whom it waits, and is told.
const waits = "Deployster-Waits"

// interim tells what a request waits for, which a server says before it answers.
func (c *Client) interim(code int, header textproto.MIMEHeader) error {
	if by := phrase.Plain(header.Get(waits)); code == http.StatusProcessing && by != "" {
		c.notice(fmt.Sprintf("server %s: waiting to record this: the turn to write is kept by %s", c.server, by))
	}
	return nil
}

// errForeign is wrapped where what answers is something else.
var errForeign = errors.New(", which no server of Deployster does")

// errBetween is wrapped where what is before a server, such as a load balancer, reaches none: one
// may be restarted, and another one may answer the next time.
var errBetween = errors.New("what is before it reaches no server of Deployster at present: try again when one runs")

// between are the statuses with which others say so.
var between = []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// refusal is why a server gives no answer.
func (c *Client) refusal(answer *http.Response, r request) error {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	var said struct {
		Detail string `json:"detail"`
		Errors []struct {
			Message  string `json:"message"`
			Location string `json:"location"`
		} `json:"errors"`
	}
	err := json.Unmarshal(text, &said)
	switch foreign := err != nil || said.Detail == ""; {
	case foreign && slices.Contains(between, answer.StatusCode):
		return fmt.Errorf("server %s answers %s: %w", c.server, answer.Status, errBetween)
	case foreign:
		return fmt.Errorf("server %s answers %s%w: is the address right?", c.server, answer.Status, errForeign)
	}
	for _, e := range said.Errors {
		said.Detail += fmt.Sprintf("\n  %s: %s", e.Location, e.Message)
	}
	switch status := answer.StatusCode; {
	case status == http.StatusUnauthorized && r.signed:
		said.Detail = fmt.Sprintf("server %s does not accept the signature, which is for %s. %s Where clients reach it at another address (serve --public-url), that must be the one of --server", c.server, c.base, said.Detail)
	case status == http.StatusUnauthorized:
		said.Detail = fmt.Sprintf("server %s: %s: put one that deployster token create has printed into DEPLOYSTER_TOKEN, or name its file in DEPLOYSTER_TOKEN_FILE", c.server, said.Detail)
	case status == http.StatusForbidden:
		remedy := ": ask an admin of it for a token with the role"
		if !strings.Contains(said.Detail, "it needs the role") { // it says itself what helps
			remedy = ""
		}
		said.Detail = fmt.Sprintf("server %s: %s%s", c.server, said.Detail, remedy)
	case slices.Contains([]int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests, http.StatusInsufficientStorage}, status):
		said.Detail = fmt.Sprintf("server %s: %s", c.server, said.Detail)
	}
	return &Refusal{answer.StatusCode, said.Detail, answer.Header.Get("Deployster-Log")}
}

// Base is the address that what is sent is for: that of a socket has a name of its own.
func (c *Client) Base() *url.URL {
	u, err := url.Parse(c.base)
	if err != nil {
		return &url.URL{} // New has refused it
	}
	return u
}

// SendSigned posts what was signed for a path below Base. It is sent once: what is signed serves
// once, so that nobody else sends it again.
func (c *Client) SendSigned(ctx context.Context, path string, header http.Header, body []byte, into any) error {
	err := c.ask(ctx, request{method: http.MethodPost, path: path, header: header, body: body, signed: true}, into)
	var refused *Refusal
	if err != nil && !errors.As(err, &refused) {
		return fmt.Errorf("%w: it is not known whether it was recorded; look before it is signed again", err)
	}
	return err
}

// get asks for a document.
func (c *Client) get(ctx context.Context, path string, query url.Values, into any) error {
	return c.ask(ctx, request{method: http.MethodGet, path: path, query: query}, into)
}

// ask asks for something of which the answer is a document.
func (c *Client) ask(ctx context.Context, r request, into any) error {
	if r.method != http.MethodGet {
		return c.askOnce(ctx, r, into)
	}
	return c.uncut(ctx, func() error { return c.askOnce(ctx, r, into) })
}

func (c *Client) askOnce(ctx context.Context, r request, into any) error {
	answer, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // it is read only
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = errCut
	case len(text) > maxAnswer:
		err = fmt.Errorf("its answer is larger than %d MiB", maxAnswer>>20)
	case err == nil && into != nil:
		err = decode(text, into)
	}
	if err != nil {
		return fmt.Errorf("server %s: %s: %w", c.server, r.path, err)
	}
	return nil
}

// decode reads a document of which all has come.
func decode(text []byte, into any) error {
	err := json.Unmarshal(text, into)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && syntax.Offset == int64(len(text)) {
		return errCut // something between hides it
	}
	return err
}

var _ interface {
	deploylog.Log
	deploylog.HeartbeatLog
} = (*Log)(nil)
