package http

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	nethttp "net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/deployster-go/deployster/internal/pattern"
)

// The limits of an answer, in bytes: how much of a body is looked at, and how
// much of it becomes part of the state.
const (
	maxBody      = 4 << 20
	maxStateBody = 64 << 10
	maxRedirects = 10
)

// probe asks one URL.
type probe struct {
	config  Config
	name    string // for messages
	pattern *regexp.Regexp
	json    any // what the body must contain; nil when that is not asked for
	client  *nethttp.Client
}

// answer is what the state says of an answer. A state is compared with an
// earlier one, hence of the headers, many of which differ from request to
// request though nothing has changed, there are only the useful ones and those
// that something is expected of.
type answer struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body,omitempty"` // text only; the first 64 KiB
	JSON    any               `json:"json,omitempty"` // the body, when it is JSON
}

// ask makes one request. The answer is nil when there was none; problem says
// why it is not as described.
func (p *probe) ask(ctx context.Context) (a *answer, problem error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.config.RequestTimeout.or(5*time.Second), errRequestTimeout)
	defer cancel()
	request, err := nethttp.NewRequestWithContext(ctx, p.config.Method, p.config.URL, strings.NewReader(p.config.Body))
	if err != nil {
		return nil, err
	}
	for name, value := range p.config.Headers {
		request.Header.Set(name, value)
		if strings.EqualFold(name, "Host") {
			request.Host = value
		}
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, reason(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return nil, fmt.Errorf("reading the body: %w", reason(ctx, err))
	}
	return p.newAnswer(response, body), p.check(response, body)
}

var errRequestTimeout = errors.New("no answer within request_timeout")

// localAddress is this side of a connection, as the messages of package net
// begin it: "read tcp 10.0.0.7:50312->10.0.0.9:80".
var localAddress = pattern.Lazy(`\S+:\d+->`)

// reason is what went wrong, without the URL that the message of net/http
// begins with: it is named already. The port at this end is another one each
// time, and says nothing to anybody.
func reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	return errors.New(localAddress().ReplaceAllString(err.Error(), ""))
}

func (p *probe) newAnswer(response *nethttp.Response, body []byte) *answer {
	a := &answer{Status: response.StatusCode, Headers: map[string]string{}}
	for _, name := range slices.AppendSeq([]string{"Content-Type", "Location"}, maps.Keys(p.config.Expect.Headers)) {
		if values := response.Header.Values(name); len(values) > 0 {
			a.Headers[nethttp.CanonicalHeaderKey(name)] = strings.ToValidUTF8(strings.Join(values, ", "), "\ufffd")
		}
	}
	if v, err := decodeJSON(body); err == nil && len(body) <= maxStateBody {
		a.JSON = v
	}
	if text := upTo(body, maxStateBody); utf8.Valid(text) {
		a.Body = string(text)
	}
	return a
}

// upTo is the beginning of text, cut between two characters.
func upTo(text []byte, limit int) []byte {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

func (p *probe) check(response *nethttp.Response, body []byte) error {
	expect := p.config.Expect
	status := response.StatusCode
	ok := slices.Contains(expect.Status, status)
	if len(expect.Status) == 0 {
		ok = 200 <= status && status <= 299
	}
	if !ok {
		return fmt.Errorf("status %d", status)
	}
	for name, want := range expect.Headers {
		if got := response.Header.Values(name); !slices.Contains(got, want) {
			return fmt.Errorf("header %s is %q, not %q", name, strings.Join(got, ", "), want)
		}
	}
	if !bytes.Contains(body, []byte(expect.BodyContains)) {
		return fmt.Errorf("status %d, but the body does not contain %q", status, expect.BodyContains)
	}
	if p.pattern != nil && !p.pattern.Match(body) {
		return fmt.Errorf("status %d, but the body does not match %s", status, p.pattern)
	}
	if len(expect.JSON) == 0 {
		return nil
	}
	got, err := decodeJSON(body)
	if err != nil {
		return fmt.Errorf("status %d, but the body is not JSON: %w", status, err)
	}
	if difference := contains(got, p.json, "json"); difference != "" {
		return fmt.Errorf("status %d, but %s", status, difference)
	}
	return nil
}

// expectation says briefly what is waited for.
func (p *probe) expectation() string {
	status := "200-299"
	if s := p.config.Expect.Status; len(s) > 0 {
		status = strings.Trim(strings.ReplaceAll(fmt.Sprint(s), " ", " or "), "[]")
	}
	e := p.config.Expect
	if e.BodyContains != "" || e.BodyMatches != "" || len(e.JSON) > 0 || len(e.Headers) > 0 {
		status += " as described"
	}
	return status
}

// wait asks until the answer is as described.
func (p *probe) wait(ctx context.Context, out io.Writer) error {
	limit := p.config.Timeout.or(30 * time.Second)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	pause := time.NewTicker(p.config.Interval.or(time.Second))
	defer pause.Stop()
	said := ""
	for {
		_, problem := p.ask(ctx)
		if problem == nil {
			_, err := fmt.Fprintf(out, "%s answers %s\n", p.name, p.expectation())
			return err
		}
		if ctx.Err() == nil && problem.Error() != said {
			said = problem.Error()
			if _, err := fmt.Fprintf(out, "%s: %s\n", p.name, said); err != nil {
				return err
			}
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil { // the ticker may have won a draw
			if said == "" {
				said = problem.Error()
			}
			return fmt.Errorf("%s did not answer %s within %s; last: %s", p.name, p.expectation(), limit, said)
		}
	}
}

// decodeJSON reads exactly one JSON value and keeps numbers as written.
func decodeJSON(text []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after the JSON value")
	}
	return v, nil
}

// contains returns where got lacks what is wanted, "" when it does not.
func contains(got, want any, path string) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return path + " is not an object"
		}
		for key, value := range w {
			member, ok := g[key]
			if !ok {
				return fmt.Sprintf("%s has no %q", path, key)
			}
			if d := contains(member, value, path+"."+key); d != "" {
				return d
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("%s is not a list of %d", path, len(w))
		}
		for i := range w {
			if d := contains(g[i], w[i], fmt.Sprintf("%s[%d]", path, i)); d != "" {
				return d
			}
		}
		return ""
	case json.Number:
		if g, ok := got.(json.Number); ok && sameNumber(g, w) {
			return ""
		}
	default:
		if got == want {
			return ""
		}
	}
	text, err := json.Marshal(got)
	if err != nil || len(text) > 200 {
		return path + " differs"
	}
	return fmt.Sprintf("%s is %s", path, text)
}

// sameNumber compares by value: 1, 1.0 and 1e0 are the same, and two large
// integers are not the same because their nearest floats are.
func sameNumber(a, b json.Number) bool {
	if a == b {
		return true
	}
	if !strings.ContainsAny(string(a)+string(b), ".eE") {
		return false
	}
	x, errX := a.Float64()
	y, errY := b.Float64()
	return errX == nil && errY == nil && x == y
}
