// Package provider finds, opens, edits and closes pull requests where a git repository is
// kept: GitHub, GitLab, Gitea (and Forgejo) and Bitbucket Cloud. What was read is asked for
// again by its tag, so that an unchanged answer costs little, and a provider that asks to wait
// is not asked before.
package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Kind is a provider.
type Kind string

// The providers.
const (
	GitHub    Kind = "github"
	GitLab    Kind = "gitlab"
	Gitea     Kind = "gitea"
	Bitbucket Kind = "bitbucket"
)

// Kinds are all of them.
func Kinds() []Kind { return []Kind{GitHub, GitLab, Gitea, Bitbucket} }

// State is how a pull request is.
type State string

// The states of pull requests.
const (
	Open   State = "open"
	Merged State = "merged"
	Closed State = "closed" // and not merged
)

// PullRequest is one, whatever its provider calls it.
type PullRequest struct {
	Number int
	URL    string // for people
	Title  string
	Body   string
	State  State
	Merged time.Time // by the clock of the provider; zero is that it is not, or not known

	created string // sorts as the times do
}

// Text is what a pull request says.
type Text struct{ Title, Body string }

// Client asks a provider about one repository.
type Client struct {
	dialect dialect
	caller  *caller
}

// dialect is how a provider is asked.
type dialect interface {
	// find is the request that lists pull requests, and list reads its answers: those whose
	// branch is in the same repository, into base.
	find(branch, base string) listing
	list(answer []byte, branch, base string) (page, error)

	// past is the request that lists those that are not open, most recently changed first;
	// apart is that find leaves them out.
	past(base string) (_ listing, apart bool)
	open(t Text, branch, base string) request
	opened(answer []byte) (PullRequest, error)
	edit(number int, t Text) request
	close(number int) request
	commits(number int) listing
	messages(answer []byte) ([]string, error)
}

type request struct {
	method, path string
	query        url.Values
	body         any
}

// Options say where a repository is, and who asks.
type Options struct {
	Kind       Kind
	Repository string // its URL, as git has it
	API        string // "" is where the provider has it by its host
	User       string // with a password instead of a token; Bitbucket alone knows that
	Token      string
	HTTP       *http.Client // bounds how long anything takes, and follows no redirect
	Cache      *Cache
}

// New prepares to ask.
func New(o Options) (*Client, error) {
	repository, err := url.Parse(o.Repository)
	if err != nil || repository.Host == "" {
		return nil, errors.New("the address of the repository is no URL")
	}
	path := strings.TrimSuffix(strings.Trim(repository.Path, "/"), ".git")
	if o.Kind == GitLab {
		path = strings.TrimPrefix(path, below(o.API, repository))
	}
	parts := strings.Split(path, "/")
	if len(parts) < 2 || slices.Contains(parts, "") {
		return nil, fmt.Errorf("the address of the repository does not end with OWNER/NAME")
	}
	owner, name := parts[len(parts)-2], parts[len(parts)-1]
	api := o.API
	if api == "" {
		api = apiOf(o.Kind, repository, parts[:len(parts)-2])
	}
	escaped := url.PathEscape(owner) + "/" + url.PathEscape(name)
	c := &Client{caller: &caller{kind: o.Kind, api: strings.TrimSuffix(api, "/"), user: o.User, token: o.Token, http: o.HTTP, cache: o.Cache}}
	switch o.Kind {
	case GitHub:
		c.dialect = gitHub{"/repos/" + escaped + "/pulls", owner}
	case GitLab:
		c.dialect = gitLab{"/projects/" + url.PathEscape(path) + "/merge_requests"}
	case Gitea:
		c.dialect = gitea{"/repos/" + escaped + "/pulls"}
	case Bitbucket:
		c.dialect = bitbucket{"/repositories/" + escaped + "/pullrequests", owner + "/" + name}
	default:
		return nil, fmt.Errorf("there is no provider %q", o.Kind)
	}
	return c, nil
}

// below is the path below which a host has GitLab, with a slash at its end, "" for none: that is
// no group of projects.
func below(api string, repository *url.URL) string {
	u, err := url.Parse(api)
	if err != nil || !strings.EqualFold(u.Host, repository.Host) {
		return ""
	}
	path, _, is := strings.Cut(strings.Trim(u.Path, "/")+"/", "api/v4/")
	if !is {
		return ""
	}
	return path
}

// apiOf is where a provider has its API for repositories of a host, with what is in the path of
// one before its owner. That is a group at GitLab, and elsewhere where the host has the provider.
func apiOf(k Kind, repository *url.URL, before []string) string {
	root := repository.Scheme + "://" + repository.Host
	switch host := strings.ToLower(repository.Hostname()); {
	case k == GitHub && host == "github.com":
		return "https://api.github.com"
	case k == GitHub:
		return root + "/api/v3"
	case k == GitLab:
		return root + "/api/v4"
	case k == Bitbucket && host == "bitbucket.org":
		return "https://api.bitbucket.org/2.0"
	case k == Bitbucket:
		return root + "/2.0"
	default:
		return strings.Join(append([]string{root}, before...), "/") + "/api/v1"
	}
}

// Find returns the pull requests from a branch of the repository into another one, newest
// first: all that are open, and the others where the provider can be asked for those of a
// branch. Past returns them elsewhere.
func (c *Client) Find(ctx context.Context, branch, base string) (all []PullRequest, err error) {
	all, err = c.read(ctx, c.dialect.find(branch, base), branch, base, func(PullRequest) bool { return false })
	sorted(all)
	return all, err
}

// Past returns pull requests from a branch that are not open, where Find leaves them out: those
// that were changed since a time, newest first, until one is enough.
func (c *Client) Past(ctx context.Context, branch, base string, since time.Time, enough func(PullRequest) bool) (all []PullRequest, err error) {
	l, apart := c.dialect.past(base)
	if !apart {
		return nil, nil
	}
	l.since = since
	all, err = c.read(ctx, l, branch, base, enough)
	sorted(all)
	return all, err
}

func sorted(all []PullRequest) {
	slices.SortStableFunc(all, func(a, b PullRequest) int {
		if by := strings.Compare(b.created, a.created); by != 0 {
			return by
		}
		return b.Number - a.Number
	})
}

// Open opens a pull request.
func (c *Client) Open(ctx context.Context, t Text, branch, base string) (PullRequest, error) {
	answer, err := c.caller.call(ctx, c.dialect.open(t, branch, base))
	if err != nil {
		return PullRequest{}, fmt.Errorf("opening the pull request: %w", err)
	}
	p, err := c.dialect.opened(answer.body)
	if err == nil && p.Number == 0 {
		err = errors.New("there is no number")
	}
	if err != nil {
		return PullRequest{}, fmt.Errorf("opening the pull request: its provider answers what cannot be read: %w", err)
	}
	p.URL = linkOf(p.URL)
	return p, nil
}

// linkOf is an address that a provider gives, where people may follow it; "" is none.
func linkOf(address string) string {
	const most = 2 << 10 // bytes
	u, err := url.Parse(address)
	if err != nil || len(address) > most || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return address
}

// Messages are those of the commits of a pull request, as far as they fit in one answer.
func (c *Client) Messages(ctx context.Context, number int) ([]string, error) {
	l := c.dialect.commits(number)
	answer, err := c.caller.call(ctx, request{method: http.MethodGet, path: l.path, query: l.query})
	var messages []string
	if err == nil {
		messages, err = c.dialect.messages(answer.body)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the commits of pull request %d: %w", number, err)
	}
	return messages, nil
}

// Edit changes what a pull request says.
func (c *Client) Edit(ctx context.Context, number int, t Text) error {
	if _, err := c.caller.call(ctx, c.dialect.edit(number, t)); err != nil {
		return fmt.Errorf("changing pull request %d: %w", number, err)
	}
	return nil
}

// Close closes a pull request.
func (c *Client) Close(ctx context.Context, number int) error {
	if _, err := c.caller.call(ctx, c.dialect.close(number)); err != nil {
		return fmt.Errorf("closing pull request %d: %w", number, err)
	}
	return nil
}
