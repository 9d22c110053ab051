// Package pullrequest proposes that values in files of a git repository are a revision, and sees
// what becomes of that: a branch has the values, and a pull request asks to take that over. All it
// knows is there: whoever asks again, also after a kill at any moment, finds what there is and
// makes nothing twice.
package pullrequest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
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

// Value is a value in a file.
type Value struct {
	File string
	Path value.Path
	Tag  bool // the value is an image, of which the tag is meant
}

// Place is values in files of a repository.
type Place struct {
	Repository string  // its URL
	Values     []Value // at least one
	Base       string  // branch that is to have the values
	Branch     string  // that proposes them, and is of nobody else
	Owner      string  // for whom that is proposed, as people are told: what others proposed is left alone

	Provider provider.Kind // "" opens no pull request
	API      string        // "" is where the provider has it
	User     string        // "" is whom the provider expects with a token

	TokenFile string // path below the workspace
	TokenEnv  string // name of a variable

	Style Style
}

// Style is how commits and pull requests are written. The zero value is the usual way.
type Style struct {
	Title, Message    string   // templates, see package wording; "" is the usual text
	Trailers          []string // templates of lines at the end of the message
	Author            string   // NAME <MAIL>; "" is Deployster
	Committer         string   // the same; "" is the author
	SignOff           bool     // commits have Signed-off-by of the author
	SigningKey        string   // path below the workspace; "" signs nothing
	SigningPassphrase string   // the same, of the file that has the passphrase of the key
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

// Has returns the revision if all values of the base branch have it, and otherwise the first other
// value.
func (c *Client) Has(ctx context.Context, p Place, revision string) (text string, err error) {
	may := func(context.Context) error { return errors.New("a value is only read") }
	err = c.with(ctx, p, may, func(ctx context.Context, s *session) error {
		branches, err := s.repository.Branches(ctx)
		if err != nil {
			return err
		}
		base, err := s.base(branches)
		if err != nil {
			return err
		}
		v, _, err := s.view(ctx, branches, base, "", revision)
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
	where      string                   // it reads, as errors say it; "" is the base branch
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
	repository, values string
	base, tip          remote.Hash
	revision           string
}

// view is what two commits have.
type view struct {
	base    string // the revision if all values have it, or the first other value
	tip     string // the same of the branch
	made    mark   // of its newest commit
	author  string // of that
	current bool   // its files are those of the base branch, but for the values
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
	of := look{s.Repository, s.named(), base, tip, revision}
	if v, known := s.looks.Get(of); known {
		return v, nil, nil
	}
	if commits, err = s.read(ctx, b, base, tip); err != nil {
		return v, nil, err
	}
	if v.base, err = s.has(commits[0], revision); err != nil {
		return v, nil, err
	}
	if len(commits) > 1 {
		is := commits[1]
		v.author, v.made, v.parent = is.Author, markOf(is.Message), is.Parent
		if v.tip, err = s.has(is, revision); err != nil {
			v.tip = "" // it is somebody else's, or is made anew
		}
		wanted, err := s.set(commits[0], revision)
		if err != nil {
			return v, nil, err
		}
		v.current = true
		for path, content := range wanted {
			v.current = v.current && string(content) == string(fileOf(is, path).Content)
		}
	}
	s.looks.Put(of, v, v.bytes()+len(of.repository)+len(of.values)+len(of.revision)+len(of.base)+len(of.tip))
	return v, commits, nil
}

// base is the newest commit of the base branch.
func (s *session) base(b *remote.Branches) (remote.Hash, error) {
	if head := b.Head(s.Base); head != "" {
		return head, nil
	}
	return "", fmt.Errorf("the repository has no branch %s: create it, or name another one (base)", s.Base)
}

// named names the values, of which no two lists have the same.
func (p *Place) named() (all string) {
	for _, v := range p.Values {
		all += fmt.Sprintf("%q %q %t\n", v.File, v.Path, v.Tag)
	}
	return all
}

// files are the paths of the files, each once.
func (p *Place) files() (all []string) {
	for _, v := range p.Values {
		if !slices.Contains(all, v.File) {
			all = append(all, v.File)
		}
	}
	return all
}

func (s *session) read(ctx context.Context, b *remote.Branches, base, tip remote.Hash) ([]*remote.Commit, error) {
	commits := []remote.Hash{base}
	if tip != "" {
		commits = append(commits, tip)
	}
	return b.Read(ctx, s.files(), commits...)
}

func fileOf(c *remote.Commit, path string) *remote.File {
	return &c.Files[slices.IndexFunc(c.Files, func(f remote.File) bool { return f.Path == path })]
}

// has returns the revision if all values of a commit have it, and otherwise the first other value.
func (s *session) has(c *remote.Commit, revision string) (string, error) {
	for _, v := range s.Values {
		f := fileOf(c, v.File)
		if f.Missing != nil {
			return "", s.at(v, f.Missing)
		}
		text, err := v.get(f.Content)
		if err != nil {
			return "", s.at(v, err)
		}
		if text != revision {
			return text, nil
		}
	}
	return revision, nil
}

// set returns the contents of all files of a commit with the revision.
func (s *session) set(c *remote.Commit, revision string) (map[string][]byte, error) {
	contents := map[string][]byte{}
	for _, f := range c.Files {
		contents[f.Path] = f.Content
	}
	for _, v := range s.Values {
		err := fileOf(c, v.File).Missing
		if err == nil {
			contents[v.File], err = v.set(contents[v.File], revision)
		}
		if err != nil {
			return nil, s.at(v, err)
		}
	}
	return contents, nil
}

// at is an error with the value that it is of.
func (s *session) at(v Value, err error) error {
	return fmt.Errorf("value %s of file %s %s: %w", v.Path, v.File, cmp.Or(s.where, "on branch "+s.Base), err)
}

func (v Value) get(content []byte) (string, error) {
	text, err := v.Path.Get(content)
	if err == nil && v.Tag {
		return value.TagOf(text)
	}
	return text, err
}

func (v Value) set(content []byte, revision string) ([]byte, error) {
	if !v.Tag {
		return v.Path.Set(content, revision)
	}
	image, err := v.Path.Get(content)
	if err == nil {
		image, err = value.WithTag(image, revision)
	}
	if err != nil {
		return nil, err
	}
	return v.Path.Set(content, image)
}
