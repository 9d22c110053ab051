package pullrequest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/deployster-go/deployster/internal/pullrequest/limit"
	"github.com/deployster-go/deployster/internal/pullrequest/signing"
	"github.com/deployster-go/deployster/internal/regularfile"
)

// token reads the token of a place, each time, so that it may be exchanged. A file is below
// the workspace, and not beside it, whatever links there are.
func (c *Client) token(p Place) (string, error) {
	switch {
	case p.TokenEnv != "":
		token := strings.TrimSpace(c.Getenv(p.TokenEnv))
		if token == "" {
			return "", fmt.Errorf("the environment variable %s, which has the token, is not set where this runs", p.TokenEnv)
		}
		return token, check(token, "the environment variable "+p.TokenEnv)
	case p.TokenFile != "":
		text, err := readBelow(c.Workspace, p.TokenFile, mostToken)
		if err != nil {
			return "", fmt.Errorf("reading the token: %w", err)
		}
		token := strings.TrimSpace(text)
		if token == "" {
			return "", fmt.Errorf("%s, which has the token, is empty", p.TokenFile)
		}
		return token, check(token, p.TokenFile)
	default:
		return "", nil
	}
}

const (
	mostToken = 16 << 10
	mostKey   = 1 << 20
)

// signer reads the key that signs commits, each time, so that it may be exchanged. It is nil if
// commits are not signed.
func (c *Client) signer(s Style, now time.Time) (func([]byte) (string, error), error) {
	if s.SigningKey == "" {
		return nil, nil
	}
	text, err := readBelow(c.Workspace, s.SigningKey, mostKey)
	if err != nil {
		return nil, fmt.Errorf("reading the key that signs commits: %w", err)
	}
	passphrase := ""
	if s.SigningPassphrase != "" {
		if passphrase, err = readBelow(c.Workspace, s.SigningPassphrase, mostToken); err != nil {
			return nil, fmt.Errorf("reading the passphrase of the key that signs commits: %w", err)
		}
	}
	key, err := signing.Read(text, strings.TrimRight(passphrase, "\r\n"))
	if err != nil {
		return nil, fmt.Errorf("commits cannot be signed with %s: %w", s.SigningKey, err)
	}
	return func(commit []byte) (string, error) { return key.Sign(commit, now) }, nil
}

func check(token, where string) error {
	if len(token) >= mostToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%s holds no token: one line without spaces", where)
	}
	return nil
}

func readBelow(workspace, path string, most int64) (string, error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // it was only read
	file, _, err := regularfile.OpenIn(root, filepath.FromSlash(path))
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(file, most))
	return string(text), err
}

// hidden is an error without the token, which a server may have said.
func hidden(err error, token, user string) error {
	var limited *limit.Error
	if err == nil || token == "" || errors.As(err, &limited) || errors.Is(err, ErrForbidden) {
		return err
	}
	text := err.Error()
	clean := oneLine(without(text, token, user))
	if clean == text {
		return err
	}
	return errors.New(clean)
}

// without is a text without the token.
func without(text, token, user string) string {
	if token == "" {
		return text
	}
	for _, form := range []string{token, url.QueryEscape(token), url.PathEscape(token), base64.StdEncoding.EncodeToString([]byte(user + ":" + token))} {
		text = strings.ReplaceAll(text, form, "(token)")
	}
	return text
}

// newHTTP is a client that waits for nothing for long, follows no redirects, which would lead
// tokens elsewhere, and keeps no connections: what is proposed is rare.
func newHTTP() *http.Client {
	const slow = 30 * time.Second
	return &http.Client{
		Transport: bounded{&http.Transport{
			Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, TLSHandshakeTimeout: slow, ResponseHeaderTimeout: slow, MaxResponseHeaderBytes: 1 << 20,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bounded fails answers that have more bytes than anybody reads, as whoever reads them may read
// them whole.
type bounded struct{ http.RoundTripper }

const mostAnswer = 80 << 20 // bytes of an answer: more than what may be sent of a repository

var errLongAnswer = fmt.Errorf("the server answers more than %d MiB", mostAnswer>>20)

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = &body{answer.Body, mostAnswer}
	return answer, nil
}

type body struct {
	io.ReadCloser
	left int64
}

func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLongAnswer
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
