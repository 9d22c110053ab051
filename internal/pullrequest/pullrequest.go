// Package pullrequest proposes that a file of a git repository has a value, and sees what
// becomes of that: a branch has the value, and a pull request asks to take that over. All it
// knows is there: whoever asks again, also after a kill at any moment, finds what there is and
// makes nothing twice.
package pullrequest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/deployster-go/deployster/internal/pullrequest/address"
	"github.com/deployster-go/deployster/internal/pullrequest/limit"
	"github.com/deployster-go/deployster/internal/pullrequest/lru"
	"github.com/deployster-go/deployster/internal/pullrequest/provider"
	"github.com/deployster-go/deployster/internal/pullrequest/remote"
	"github.com/deployster-go/deployster/internal/pullrequest/slots"
	"github.com/deployster-go/deployster/internal/pullrequest/value"
)

// Place is a value in a file of a repository.
type Place struct {
	Repository string // its URL
	File       string
	Value      value.Path
	Tag        bool   // the value is an image, of which the tag is meant
	Base       string // branch that is to have the value
	Branch     string // that proposes it, and is of nobody else
	Owner      string // for whom it is proposed, as people are told: what others proposed is left alone

	Provider provider.Kind // "" opens no pull request
	API      string        // "" is where the provider has it
	User     string        // "" is whom the provider expects with a token

	TokenFile string // path below the workspace
	TokenEnv  string // name of a variable
}

// Wanted is what is proposed.
type Wanted struct {
	Key         string // of the promotion, the same at each try
	Pipeline    string
	Stage       string
	Environment string
	Revision    string    // the value
	Since       time.Time // when it was first wanted; zero is just now
}

// Status is how far a proposal is.
type Status string

// The statuses of proposals.
const (
	Proposed Status = "proposed" // the branch has the value, and a pull request is open where there is a provider
	Taken    Status = "taken"    // the base branch has the value
	Declined Status = "declined" // the pull request was closed, and nothing was done since
)

// Outcome is what there is.
type Outcome struct {
	Status Status
	Number int    // of the pull request, 0 for none
	URL    string // of it
	Detail string // for people
}

// ErrForbidden is wrapped where nothing was changed because it may not be any more.
var ErrForbidden = errors.New("it may not be proposed any more")

// Options are what a Client needs.
type Options struct {
	Workspace string // below which the files of tokens are
	Getenv    func(string) string
	Now       func() time.Time
}

// Client proposes. It is safe for concurrent use.
type Client struct {
	Options
	http   *http.Client
	limits *limit.Servers
	cache  *provider.Cache

	places  *slots.Slots // one is at work on each at once
	servers *slots.Slots
	large   *slots.Slots // that use much memory, one of each server
	memory  *slots.Slots // and so many of all

	looks *lru.Cache[look, view]

	unpacking sync.Mutex
}

// mostAtServer is how many proposals are worked on at once with one server: one that does not
// answer holds each up for long, and nobody but those.
const mostAtServer = 4

// mostLarge is how many use much memory at once, which may be some hundred MiB each.
const mostLarge = 4

// New prepares to propose.
func New(o Options) *Client {
	limits := &limit.Servers{Now: o.Now}
	return &Client{
		Options: o, http: newHTTP(), limits: limits, cache: provider.NewCache(limits, mostAnswers),
		places: slots.New(1), servers: slots.New(mostAtServer), large: slots.New(1), memory: slots.New(mostLarge), looks: lru.New[look, view](mostViews),
	}
}

// Kept is how many bytes are kept of what was read.
func (c *Client) Kept() int { return c.looks.Bytes() + c.cache.Bytes() }

// mostTime is how long one proposal may take.
const mostTime = 2 * time.Minute

// Propose has the branch carry the value, and a pull request be open for it, unless the base
// branch has the value or the pull request was closed. Before anything is changed, may says
// whether that may be.
func (c *Client) Propose(ctx context.Context, p Place, w Wanted, may func(context.Context) error) (o Outcome, err error) {
	err = c.with(ctx, p, may, func(ctx context.Context, s *session) error {
		o, err = s.propose(ctx, w)
		o.Detail, o.URL = s.hide(o.Detail), s.hide(o.URL)
		return err
	})
	return o, err
}

// ValueAt is the value that the base branch of a place has.
func (c *Client) ValueAt(ctx context.Context, p Place) (text string, err error) {
	may := func(context.Context) error { return errors.New("a value is only read") }
	err = c.with(ctx, p, may, func(ctx context.Context, s *session) error {
		branches, err := s.repository.Branches(ctx)
		if err != nil {
			return err
		}
		base := branches.Head(s.Base)
		if base == "" {
			return fmt.Errorf("the repository has no branch %s", s.Base)
		}
		v, _, err := s.view(ctx, branches, base, "", "")
		text = v.base
		return err
	})
	return text, err
}

// Withdraw closes the pull request, and deletes the branch if its newest commit was made here.
func (c *Client) Withdraw(ctx context.Context, p Place, may func(context.Context) error) error {
	return c.with(ctx, p, may, func(ctx context.Context, s *session) error { return s.withdraw(ctx) })
}

// alone waits until nobody else is at work on a place, and its servers have a free slot. Whoever
// waits for a server that does not answer keeps nobody from another one.
func (c *Client) alone(ctx context.Context, p Place) (leave func(), err error) {
	place, err := c.places.Take(ctx, address.Canonical(p.Repository)+" "+p.Branch)
	if err != nil {
		return nil, err
	}
	server, err := c.servers.Take(ctx, address.Host(p.Repository)+" "+address.Host(p.API))
	if err != nil {
		place()
		return nil, err
	}
	return func() { server(); place() }, nil
}

// session is a use of a place with its token.
type session struct {
	*Client
	Place
	repository *remote.Repository
	provider   *provider.Client
	leave      []func()
	may        func(context.Context) error
	hide       func(text string) string // leaves the token out
}

// allowed fails where nothing may be changed.
func (s *session) allowed(ctx context.Context) error {
	if err := s.may(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	return nil
}

// large waits until there is memory for more than a little, which this use of a place has until
// it ends.
func (s *session) large(ctx context.Context) error {
	if len(s.leave) > 0 {
		return nil
	}
	for _, of := range []struct {
		*slots.Slots
		key string
	}{{s.Client.large, address.Host(s.Repository)}, {s.memory, ""}} {
		leave, err := of.Take(ctx, of.key)
		if err != nil {
			return err
		}
		s.leave = append(s.leave, leave)
	}
	return nil
}

func (s *session) end() {
	for _, leave := range s.leave {
		leave()
	}
}

// with opens a place. No error that comes of it tells the token.
func (c *Client) with(ctx context.Context, p Place, may func(context.Context) error, do func(context.Context, *session) error) error {
	leave, err := c.alone(ctx, p)
	if err != nil {
		return err
	}
	defer leave()
	token, err := c.token(p)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, mostTime)
	defer cancel()
	s := &session{Client: c, Place: p, may: may, hide: func(text string) string { return without(text, token, p.user()) }}
	defer s.end()
	var credentials remote.Credentials
	if token != "" {
		credentials = remote.Credentials{User: p.user(), Password: token}
	}
	asks := "git\x00" + address.Host(p.Repository) + "\x00" + token
	if err := c.limits.May(asks); err != nil {
		return err
	}
	s.repository, err = remote.Open(p.Repository, credentials, remote.Options{
		HTTP: c.http, Now: c.Now, Unpacking: &c.unpacking, Large: s.large, Limited: func(until time.Time) { c.limits.Leave(asks, until) },
	})
	if err != nil {
		return err
	}
	if p.Provider != "" {
		s.provider, err = provider.New(provider.Options{
			Kind: p.Provider, Repository: p.Repository, API: p.API, User: p.User, Token: token, HTTP: c.http, Cache: c.cache,
		})
		if err != nil {
			return err
		}
	}
	err = do(ctx, s)
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		err = fmt.Errorf("it was not done within %s: %w", mostTime, err)
	}
	return hidden(err, token, p.user())
}

// user is who has the token, as git is told.
func (p Place) user() string {
	switch {
	case p.User != "":
		return p.User
	case p.Provider == provider.GitHub:
		return "x-access-token"
	case p.Provider == provider.GitLab:
		return "oauth2"
	case p.Provider == provider.Bitbucket:
		return "x-token-auth"
	default:
		return "deployster"
	}
}

// look is what a view is of: the commits say all of it.
type look struct {
	repository, file, path string
	tag                    bool
	base, tip              remote.Hash
	revision               string
}

// view is what two commits have.
type view struct {
	base    string // the value
	tip     string // the value of the branch
	made    mark   // of its newest commit
	author  string // of that
	current bool   // its file is that of the base branch, but for the value
	parent  remote.Hash
}

func (v *view) bytes() int {
	return len(v.base) + len(v.tip) + len(v.made.key) + len(v.made.owner) + len(v.author) + len(v.parent)
}

// The bytes that are kept of what was read, so that it is not read again.
const (
	mostViews   = 4 << 20
	mostAnswers = 32 << 20 // of providers
)

// view compares the branch with the base branch. Commits are read only if that is not known:
// otherwise they are nil.
func (s *session) view(ctx context.Context, b *remote.Branches, base, tip remote.Hash, revision string) (v view, commits []*remote.Commit, err error) {
	of := look{s.Repository, s.File, s.Value.String(), s.Tag, base, tip, revision}
	if v, known := s.looks.Get(of); known {
		return v, nil, nil
	}
	if commits, err = s.read(ctx, b, base, tip); err != nil {
		return v, nil, err
	}
	if v.base, err = s.get(commits[0]); err != nil {
		return v, nil, fmt.Errorf("file %s on %s: %w", s.File, s.Base, err)
	}
	if len(commits) > 1 {
		is := commits[1]
		v.author, v.made, v.parent = is.Author, markOf(is.Message), is.Parent
		if v.tip, err = s.get(is); err != nil {
			v.tip = "" // it is somebody else's, or is made anew
		}
		wanted, err := s.set(commits[0], revision)
		if err != nil {
			return v, nil, err
		}
		v.current = string(wanted) == string(is.Files[0].Content)
	}
	s.looks.Put(of, v, v.bytes()+len(of.repository)+len(of.file)+len(of.path)+len(of.revision)+len(of.base)+len(of.tip))
	return v, commits, nil
}

func (s *session) read(ctx context.Context, b *remote.Branches, base, tip remote.Hash) ([]*remote.Commit, error) {
	commits := []remote.Hash{base}
	if tip != "" {
		commits = append(commits, tip)
	}
	return b.Read(ctx, []string{s.File}, commits...)
}

func (s *session) get(c *remote.Commit) (string, error) {
	f := &c.Files[0]
	if f.Missing != nil {
		return "", f.Missing
	}
	text, err := s.Value.Get(f.Content)
	if err == nil && s.Tag {
		return value.TagOf(text)
	}
	return text, err
}

func (s *session) set(c *remote.Commit, revision string) ([]byte, error) {
	f := &c.Files[0]
	if f.Missing != nil {
		return nil, fmt.Errorf("file %s on %s: %w", s.File, s.Base, f.Missing)
	}
	to := revision
	if s.Tag {
		image, err := s.Value.Get(f.Content)
		if err == nil {
			to, err = value.WithTag(image, revision)
		}
		if err != nil {
			return nil, fmt.Errorf("file %s on %s: %w", s.File, s.Base, err)
		}
	}
	text, err := s.Value.Set(f.Content, to)
	if err != nil {
		return nil, fmt.Errorf("file %s on %s: %w", s.File, s.Base, err)
	}
	return text, nil
}
