package provider

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/deployster-go/deployster/internal/pullrequest/limit"
	"github.com/deployster-go/deployster/internal/pullrequest/lru"
)

const mostAnswer = 8 << 20 // bytes that are read

// Cache keeps what providers answered, with the tag by which they say that it is as it was. It
// is safe for concurrent use.
type Cache struct {
	limits  *limit.Servers // that want not to be asked
	answers *lru.Cache[[sha256.Size]byte, answer]
}

// NewCache returns one that keeps so many bytes at most; limits has the servers that want not to
// be asked.
func NewCache(limits *limit.Servers, most int) *Cache {
	return &Cache{limits: limits, answers: lru.New[[sha256.Size]byte, answer](most)}
}

// Bytes is how many bytes are kept.
func (c *Cache) Bytes() int { return c.answers.Bytes() }

type answer struct {
	etag, modified string
	body           []byte
	following      following
}

type caller struct {
	kind        Kind
	api         string
	user, token string
	http        *http.Client
	cache       *Cache
}

// call makes a request, and returns the answer of success.
func (c *caller) call(ctx context.Context, r request) (of answer, err error) {
	address := c.api + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	if err := c.cache.limits.May(c.who()); err != nil {
		return of, err
	}
	to, err := c.prepare(ctx, address, r)
	if err != nil {
		return of, err
	}
	key := sha256.Sum256([]byte(c.who() + "\x00" + address))
	known, cached := c.cache.answers.Get(key)
	if cached = cached && r.method == http.MethodGet; cached {
		if known.etag != "" {
			to.Header.Set("If-None-Match", known.etag)
		}
		if known.modified != "" {
			to.Header.Set("If-Modified-Since", known.modified)
		}
	}
	response, err := c.http.Do(to)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) {
			err = of.Err
		}
		return answer{}, err
	}
	defer response.Body.Close() //nolint:errcheck // the answer counts
	body, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer+1))
	switch {
	case err != nil:
		return of, fmt.Errorf("reading the answer: %w", err)
	case len(body) > mostAnswer:
		return of, fmt.Errorf("the answer has more than %d MiB", mostAnswer>>20)
	}
	until, limited := limit.Of(c.cache.limits.Now(), response.StatusCode, response.Header)
	if !until.IsZero() {
		c.cache.limits.Leave(c.who(), until)
	}
	switch {
	case response.StatusCode == http.StatusNotModified && cached:
		return known, nil
	case response.StatusCode >= 200 && response.StatusCode < 300:
		of = answer{response.Header.Get("ETag"), response.Header.Get("Last-Modified"), body, followingOf(response.Header)}
		if r.method == http.MethodGet && of.etag+of.modified != "" {
			c.cache.answers.Put(key, of, len(body)+len(of.etag)+len(of.modified))
		}
		return of, nil
	case limited:
		return of, &limit.Error{Until: until}
	default:
		return of, refused(response.StatusCode, response.Header.Get("Location"), body)
	}
}

func (c *caller) who() string { return c.api + "\x00" + c.user + "\x00" + c.token }

func (c *caller) prepare(ctx context.Context, address string, r request) (*http.Request, error) {
	var body io.Reader
	if r.body != nil {
		data, err := json.Marshal(r.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	to, err := http.NewRequestWithContext(ctx, r.method, address, body)
	if err != nil {
		return nil, errors.New("the address of the API cannot be used")
	}
	to.Header.Set("User-Agent", "deployster")
	to.Header.Set("Accept", "application/json")
	if c.kind == GitHub {
		to.Header.Set("Accept", "application/vnd.github+json")
	}
	if r.body != nil {
		to.Header.Set("Content-Type", "application/json")
	}
	switch {
	case c.token == "":
	case c.kind == Gitea:
		to.Header.Set("Authorization", "token "+c.token)
	case c.kind == Bitbucket && c.user != "":
		to.SetBasicAuth(c.user, c.token)
	default:
		to.Header.Set("Authorization", "Bearer "+c.token)
	}
	return to, nil
}

// refused says what an answer means that is not of success.
func refused(status int, location string, body []byte) error {
	said := messageOf(body)
	switch {
	case location != "" && status >= 300 && status < 400:
		return fmt.Errorf("the provider sends on to another address (%d), which is not followed: name the repository, or api, as it is now", status)
	case status == http.StatusUnauthorized:
		return fmt.Errorf("the provider does not know the token (401)%s", said)
	case status == http.StatusForbidden:
		return fmt.Errorf("the token may not do that (403); it has to read and write pull requests%s", said)
	case status == http.StatusNotFound:
		return fmt.Errorf("the provider has no such repository, or the token may not see it (404)%s", said)
	default:
		return fmt.Errorf("the provider answered %d%s", status, said)
	}
}

// messageOf is what a provider says of an error, as far as that has a known form.
func messageOf(body []byte) string {
	const most = 300
	var e struct {
		Message any `json:"message"`
		Error   any `json:"error"`
		Errors  any `json:"errors"`
	}
	if json.Unmarshal(body, &e) != nil {
		return ""
	}
	var all []string
	for _, part := range []any{e.Message, e.Error, e.Errors} {
		all = append(all, texts(part, 0)...)
	}
	text := strings.Join(all, "; ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	if text == "" {
		return ""
	}
	return ": " + text
}

// texts are those in a value of JSON.
func texts(of any, depth int) (all []string) {
	const deepest = 4
	switch of := of.(type) {
	case string:
		return []string{of}
	case []any:
		for _, one := range of {
			if depth < deepest {
				all = append(all, texts(one, depth+1)...)
			}
		}
	case map[string]any:
		for _, key := range []string{"message", "detail", "fields", "field", "code"} {
			if one, ok := of[key]; ok && depth < deepest {
				all = append(all, texts(one, depth+1)...)
			}
		}
	}
	return all
}
