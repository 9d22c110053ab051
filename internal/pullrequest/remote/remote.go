// Package remote changes files on a branch of a git repository elsewhere, over HTTP and
// without a copy of it on disk: it reads the newest commits of the branches that it is asked
// for, and no history, makes a commit of the objects that change, and pushes that only if the
// branch is what it was when it was read.
package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/deployster-go/deployster/internal/pullrequest/limit"
)

// Repository is one elsewhere.
type Repository struct {
	endpoint *transport.Endpoint
	client   transport.Transport
	auth     transport.AuthMethod
	Options
}

// Options are what repositories share. All fields are required.
type Options struct {
	HTTP      *http.Client     // bounds what is read, and how long that takes
	Now       func() time.Time //
	Unpacking *sync.Mutex      // what is unpacked takes a multiple of its size for a moment, so one is at a time
	// Large is called before much memory is used, and waits until there is some.
	Large func(ctx context.Context) error

	Limited func(until time.Time) // is called where the server wants not to be asked before a time
}

// Credentials are who asks. The zero value asks as nobody.
type Credentials struct{ User, Password string }

// Open prepares to use a repository. Redirects are not followed, so that credentials stay with
// the host of the address.
func Open(address string, c Credentials, o Options) (*Repository, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("its address is not a URL of https")
	}
	port := 0
	if text := u.Port(); text != "" {
		if port, err = strconv.Atoi(text); err != nil {
			return nil, errors.New("its address has a port that is no number")
		}
	}
	host := u.Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	r := &Repository{
		Options:  o,
		endpoint: &transport.Endpoint{Protocol: u.Scheme, Host: host, Port: port, Path: u.Path},
		client:   githttp.NewClientWithOptions(o.HTTP, &githttp.ClientOptions{RedirectPolicy: githttp.NoFollowRedirects}),
	}
	if c != (Credentials{}) {
		r.auth = &githttp.BasicAuth{Username: c.User, Password: c.Password}
	}
	return r, nil
}

// Hash names a commit; "" is none.
type Hash string

// ErrNoBranch is wrapped where a branch is not there.
var ErrNoBranch = errors.New("there is no such branch")

// Branches are the newest commits of the branches of a repository.
type Branches struct {
	repository *Repository
	session    transport.UploadPackSession
	all        *packp.AdvRefs
}

// Branches asks for the branches, which is cheap.
func (r *Repository) Branches(ctx context.Context) (*Branches, error) {
	endpoint := *r.endpoint
	session, err := r.client.NewUploadPackSession(&endpoint, r.auth)
	if err != nil {
		return nil, r.explained(err)
	}
	all, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return nil, r.explained(err)
	}
	return &Branches{repository: r, session: session, all: all}, nil
}

const heads = "refs/heads/"

// Head is the newest commit of a branch, "" where there is no such branch.
func (b *Branches) Head(branch string) Hash {
	return hashOf(b.all.References[heads+branch])
}

func hashOf(h plumbing.Hash) Hash {
	if h.IsZero() {
		return ""
	}
	return Hash(h.String())
}

var errNoGit = errors.New("the server does not answer as git: check the URL (repository)")

// explained says in other words what went wrong with a request, and what helps; a *limit.Error
// that the server wants not to be asked now.
func (r *Repository) explained(err error) error {
	var status *githttp.Err
	var of *url.Error
	var permanent *plumbing.PermanentError
	var unexpected *plumbing.UnexpectedError
	var data *packp.ErrUnexpectedData
	switch {
	case err == nil:
		return nil
	case errors.As(err, &permanent): // neither can be unwrapped
		return r.explained(permanent.Err)
	case errors.As(err, &unexpected):
		return r.explained(unexpected.Err)
	case errors.As(err, &status) && r.refused(status.Response):
		until, _ := limit.Of(r.Now(), status.StatusCode(), status.Response.Header)
		r.Limited(until)
		return &limit.Error{Until: until}
	case errors.As(err, &data) && bytes.Contains(data.Data, []byte("object-format=sha256")):
		return errors.New("the repository is one of SHA-256 (object-format=sha256), which Deployster cannot read: use one of SHA-1, which git init makes by default")
	case errors.As(err, &data), errors.Is(err, pktline.ErrInvalidPktLen):
		return errNoGit
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		return errors.New("the repository has no commit yet: make a first one on its base branch")
	case errors.Is(err, transport.ErrAuthenticationRequired):
		return answered(err, transport.ErrAuthenticationRequired, "the server does not know the token, or wants one (401): see token_file or token_env, and user")
	case errors.Is(err, transport.ErrAuthorizationFailed):
		return answered(err, transport.ErrAuthorizationFailed, "the token may not do that (403): it needs to read and write the contents of the repository")
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return answered(err, transport.ErrRepositoryNotFound, "there is no such repository, or the token may not see it (404)")
	case errors.As(err, &status):
		return withWords(fmt.Sprintf("the server answered %d", status.StatusCode()), status.Reason)
	case errors.As(err, &of):
		return of.Err
	default:
		return err
	}
}

// answered is an error in other words, with those that the server says after what the error is of.
func answered(err, of error, text string) error {
	_, said, _ := strings.Cut(err.Error(), of.Error()+": ")
	return withWords(text, said)
}

// withWords is an error with what the server says, unless that is a page for a browser.
func withWords(text, said string) error {
	if said = strings.TrimSpace(said); said == "" || strings.HasPrefix(said, "<") {
		return errors.New(text)
	}
	return fmt.Errorf("%s; the server says: %s", text, spoken(said[:min(len(said), mostWords)]))
}

// refused reports whether a server refused because it is asked too often.
func (r *Repository) refused(answer *http.Response) bool {
	if answer == nil {
		return false
	}
	_, refused := limit.Of(r.Now(), answer.StatusCode, answer.Header)
	return refused
}
