// Package http is the resource type deployster/http: a URL that answers as
// described. It changes nothing in the world; it is for verification, and for
// making other resources wait until something is up.
//
// The state action asks once. When the answer is not as described there is one
// action, which asks again and again until it is, or until the time is over.
package http

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	nethttp "net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/duration"
)

// Summary says in one line what the type is for.
const Summary = "wait until a URL answers as described, for verification"

//go:embed schema.json
var configSchema []byte

// Config is the configuration of a resource.
type Config struct {
	URL                string            `json:"url"`
	Method             string            `json:"method"`
	Headers            map[string]string `json:"headers"`
	Body               string            `json:"body"`
	Expect             Expect            `json:"expect"`
	Timeout            Duration          `json:"timeout"`         // default 30s
	Interval           Duration          `json:"interval"`        // default 1s
	RequestTimeout     Duration          `json:"request_timeout"` // default 5s
	InsecureSkipVerify bool              `json:"insecure_skip_verify"`
	CAPEM              string            `json:"ca_pem"`
}

// Expect is what the answer must be like.
type Expect struct {
	Status       Statuses          `json:"status"` // empty: 200 to 299
	BodyContains string            `json:"body_contains"`
	BodyMatches  string            `json:"body_matches"`
	JSON         json.RawMessage   `json:"json"`
	Headers      map[string]string `json:"headers"`
}

// Duration is written as in "1m30s"; 0 stands for the default.
type Duration time.Duration

// UnmarshalJSON reads the text.
func (d *Duration) UnmarshalJSON(text []byte) error {
	v, err := duration.Parse(text, 1, "positive")
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

func (d Duration) or(otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return time.Duration(d)
}

// Statuses is one status or a list of them.
type Statuses []int

// UnmarshalJSON reads either form.
func (s *Statuses) UnmarshalJSON(text []byte) error {
	var one int
	if json.Unmarshal(text, &one) == nil {
		*s = Statuses{one}
		return nil
	}
	var several []int
	if err := json.Unmarshal(text, &several); err != nil {
		return fmt.Errorf("status must be a number or a list of numbers, not %s", text)
	}
	*s = several
	return nil
}

// Type returns the resource type.
func Type() protocol.Type[Config] {
	connect := connector()
	open := func(c Config) (*probe, error) {
		transport, err := connect(c)
		if err != nil {
			return nil, err
		}
		return newProbe(c, transport)
	}
	return protocol.Type[Config]{
		ConfigSchema: configSchema,
		Removable:    true, // there is nothing to remove
		MakesNothing: true,
		State: func(ctx context.Context, r protocol.Request[Config]) (protocol.StateOutput, error) {
			if r.Ensure == protocol.Absent {
				return protocol.AnswerValid(map[string]any{})
			}
			p, err := open(r.Config)
			if err != nil {
				return protocol.StateOutput{}, err
			}
			answer, problem := p.ask(ctx)
			if problem == nil {
				return protocol.AnswerValid(answer)
			}
			wait := protocol.Do("wait", fmt.Sprintf("wait until %s answers %s (now: %v)", p.name, p.expectation(), problem))
			if answer == nil {
				return protocol.AnswerStale(nil, wait)
			}
			return protocol.AnswerStale(answer, wait)
		},
		Actions: map[string]func(context.Context, protocol.Request[Config]) error{
			"wait": func(ctx context.Context, r protocol.Request[Config]) error {
				p, err := open(r.Config)
				if err != nil {
					return err
				}
				return p.wait(ctx, r.Stdout)
			},
		},
	}
}

// newProbe checks a configuration and gets ready to ask.
func newProbe(c Config, transport nethttp.RoundTripper) (*probe, error) {
	u, err := url.Parse(c.URL) // no message repeats it: a password may be in it
	if err == nil && u.User != nil {
		return nil, errors.New("url must not contain a user or password, which would be kept and shown; give them in \"headers\", as Authorization")
	}
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("url must be like http://host/path or https://host/path")
	}
	if c.Method == "" {
		c.Method = nethttp.MethodGet
	}
	p := &probe{config: c, name: c.URL}
	if c.Expect.BodyMatches != "" {
		if p.pattern, err = regexp.Compile(c.Expect.BodyMatches); err != nil {
			return nil, fmt.Errorf("expect.body_matches: %w", err)
		}
	}
	if len(c.Expect.JSON) > 0 {
		if p.json, err = decodeJSON(c.Expect.JSON); err != nil {
			return nil, fmt.Errorf("expect.json: %w", err)
		}
	}
	p.client = &nethttp.Client{
		Transport: transport,
		CheckRedirect: func(_ *nethttp.Request, via []*nethttp.Request) error {
			if len(via) > maxRedirects {
				return errors.New("it redirects more than 10 times")
			}
			return nil
		},
	}
	return p, nil
}
