package identity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/deployster-go/deployster/deploylog"
)

// The events of tokens.
const (
	TokenCreated = "token-created"
	TokenRevoked = "token-revoked"
)

// prefix is what all tokens begin with, so that they are found where they should not be.
const prefix = "dpl_"

// Token is what is known of one. What is sent to authenticate is not kept: the log has a
// hash of it, which is of no use to who reads it, for it is of 256 random bits.
type Token struct {
	Name    string    `json:"token"`
	ID      string    `json:"id"`
	Grant             // what it may do
	By      string    `json:"by"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	Revoked string    `json:"revoked_by,omitempty"` // who revoked it
	Seq     int64     `json:"event"`

	hash []byte
}

// Status is valid, expired or revoked.
func (t Token) Status(now time.Time) string {
	switch {
	case t.Revoked != "":
		return "revoked"
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return "expired"
	default:
		return "valid"
	}
}

// payload is what the events of tokens carry.
type payload struct {
	Grant
	Hash    string    `json:"hash,omitempty"` // SHA-256
	Expires time.Time `json:"expires,omitzero"`
	By      string    `json:"by"`
}

// Tokens are those of a log. They are safe for concurrent use, and know at once of what
// any process creates or revokes.
type Tokens struct {
	log deploylog.Log
	now func() time.Time

	mu    sync.Mutex
	begun bool
	head  int64
	byID  map[string]*Token
	order []string // ids
}

// NewTokens are the tokens of a log.
func NewTokens(log deploylog.Log, now func() time.Time) *Tokens {
	return &Tokens{log: log, now: now, byID: map[string]*Token{}}
}

// follow applies what was appended since.
func (t *Tokens) follow(ctx context.Context) error {
	if !t.begun {
		var newest int64
		for e, err := range t.log.Read(ctx, deploylog.Filter{Last: 1}) {
			if err != nil {
				return fmt.Errorf("reading the tokens: %w", err)
			}
			newest = e.Seq
		}
		if newest > 0 {
			if err := t.read(ctx, deploylog.Filter{Target: "token/", Until: newest}); err != nil {
				return err
			}
		}
		t.begun, t.head = true, newest
	}
	return t.read(ctx, deploylog.Filter{After: t.head})
}

func (t *Tokens) read(ctx context.Context, f deploylog.Filter) error {
	for e, err := range t.log.Read(ctx, f) {
		if err != nil {
			return fmt.Errorf("reading the tokens: %w", err)
		}
		t.apply(e)
		t.head = max(t.head, e.Seq)
	}
	return nil
}

func (t *Tokens) apply(e deploylog.Event) {
	if e.Target.Kind() != "token" {
		return
	}
	_, name, _ := strings.Cut(string(e.Target), "/")
	var p payload
	switch e.Name {
	case TokenCreated:
		hash, err := []byte(nil), json.Unmarshal(e.Data, &p)
		if err == nil {
			hash, err = hex.DecodeString(p.Hash)
		}
		if _, again := t.byID[e.Deployment]; again || err != nil || len(hash) != sha256.Size {
			return // what cannot be read authenticates nobody
		}
		t.byID[e.Deployment] = &Token{Name: name, ID: e.Deployment, Grant: p.Grant, By: p.By, Created: e.CreatedAt, Expires: p.Expires, Seq: e.Seq, hash: hash}
		t.order = append(t.order, e.Deployment)
	case TokenRevoked:
		if of := t.byID[e.Deployment]; of != nil && of.Revoked == "" {
			_ = json.Unmarshal(e.Data, &p) // it is revoked all the same
			of.Revoked = "?"
			if p.By != "" {
				of.Revoked = p.By
			}
		}
	}
}

// List is the tokens that there ever were, the oldest first.
func (t *Tokens) List(ctx context.Context) ([]Token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.follow(ctx); err != nil {
		return nil, err
	}
	all := []Token{}
	for _, id := range t.order {
		all = append(all, *t.byID[id])
	}
	return all, nil
}

// valid is the token of a name that may be used.
func (t *Tokens) valid(name string) *Token {
	for _, id := range t.order {
		if of := t.byID[id]; of.Name == name && of.Status(t.now()) == "valid" {
			return of
		}
	}
	return nil
}

// New is a token that is to be created.
type New struct {
	Name string
	ID   string // fresh
	Grant
	Expires time.Time // zero is never
	By      string
}

// ErrToken is wrapped where a token cannot be created or revoked as it is wanted.
var ErrToken = errors.New("refused")

// Kind is that of tokens where a log is a server's, to which commands are sent.
const Kind = "tokens"

// Issue is a token that is to be created by who has made what authenticates by it: of that
// nobody else gets more than a hash.
type Issue struct {
	Token        string // its id, fresh
	Hash         string // SHA-256 of the secret, hexadecimal
	Role         Role
	Pipelines    []string
	Environments []string
	Expires      time.Time // zero is never
	By           string
}

// Revoke is that a token authenticates nobody any more.
type Revoke struct {
	By string
}

// commanded is a log that is a server's, which records what it is asked for.
type commanded interface {
	Command(ctx context.Context, kind, name string, command any, asOf int64) ([]deploylog.Event, error)
}

// Create creates a token, and returns what authenticates by it, which nobody can find out
// later.
func (t *Tokens) Create(ctx context.Context, n New) (secret string, written []deploylog.Event, err error) {
	random := make([]byte, sha256.Size)
	if _, err := rand.Read(random); err != nil {
		return "", nil, fmt.Errorf("creating token %s: %w", n.Name, err)
	}
	secret = prefix + n.ID + "_" + base64.RawURLEncoding.EncodeToString(random)
	hash := sha256.Sum256([]byte(secret))
	issue := Issue{Token: n.ID, Hash: hex.EncodeToString(hash[:]), Role: n.Role, Pipelines: n.Pipelines, Environments: n.Environments, Expires: n.Expires, By: n.By}
	if err := t.check(n.Name, issue); err != nil {
		return "", nil, err
	}
	if server, sends := t.log.(commanded); sends {
		written, err = server.Command(ctx, Kind, n.Name, issue, 0)
		return secret, written, err
	}
	written, err = t.Issue(ctx, n.Name, issue)
	return secret, written, err
}

// check refuses a token that cannot be.
func (t *Tokens) check(name string, i Issue) error {
	hash, err := hex.DecodeString(i.Hash)
	switch {
	case name == "" || len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r == ' ' || unicode.IsControl(r) }):
		return fmt.Errorf("%w: the name %q of a token must have neither slashes nor blanks, and 1 to %d bytes", ErrToken, name, maxName)
	case !slices.Contains(Roles(), i.Role):
		return fmt.Errorf("%w: %q is no role: it is viewer, operator, approver or admin", ErrToken, i.Role)
	case slices.Contains(i.Pipelines, "") || slices.Contains(i.Environments, ""):
		return fmt.Errorf("%w: a pipeline or environment without a name: without any, token %s is for everything", ErrToken, name)
	case !i.Expires.IsZero() && !t.now().Before(i.Expires):
		return fmt.Errorf("%w: token %s would have expired already", ErrToken, name)
	case err != nil || len(hash) != sha256.Size:
		return fmt.Errorf("%w: the hash of token %s is no SHA-256 in hexadecimal digits", ErrToken, name)
	case i.Token == "" || len(i.Token) > maxID || strings.ContainsFunc(i.Token, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) }):
		return fmt.Errorf("%w: the id of token %s must be of 1 to %d letters and digits", ErrToken, name, maxID)
	}
	return nil
}

// The limits of a token, in bytes.
const (
	maxName = 100
	maxID   = 64
)

// Issue creates a token whose secret who wants it has made: prefix, id and a random text.
func (t *Tokens) Issue(ctx context.Context, name string, i Issue) (written []deploylog.Event, err error) {
	if err := t.check(name, i); err != nil {
		return nil, err
	}
	err = t.hold(ctx, func() error {
		if old := t.valid(name); old != nil {
			return fmt.Errorf("%w: there is a valid token %s (event %d): revoke it, or give this one another name", ErrToken, name, old.Seq)
		}
		for _, err := range t.log.Read(ctx, deploylog.Filter{Deployment: i.Token, Last: 1}) {
			if err != nil {
				return fmt.Errorf("reading whether the id of token %s is fresh: %w", name, err)
			}
			return fmt.Errorf("%w: the id of token %s is not fresh: the log has events of it", ErrToken, name)
		}
		grant := Grant{Role: i.Role, Pipelines: i.Pipelines, Environments: i.Environments}
		written, err = t.append(ctx, i.Token, name, TokenCreated, payload{Grant: grant, Hash: i.Hash, Expires: i.Expires, By: i.By})
		return err
	})
	return written, err
}

// Revoke has the token of a name authenticate nobody any more, from now on.
func (t *Tokens) Revoke(ctx context.Context, name string, r Revoke) (written []deploylog.Event, err error) {
	if server, sends := t.log.(commanded); sends {
		return server.Command(ctx, Kind, name, r, 0)
	}
	err = t.hold(ctx, func() error {
		of := t.valid(name)
		if of == nil {
			return fmt.Errorf("%w: there is no valid token %.200q: deployster token list shows them", ErrToken, name)
		}
		written, err = t.append(ctx, of.ID, name, TokenRevoked, payload{By: r.By})
		return err
	})
	return written, err
}

// hold calls do with the newest tokens, which nobody else changes.
func (t *Tokens) hold(ctx context.Context, do func() error) error {
	unlock, err := t.log.Lock(ctx, "tokens")
	if err != nil {
		return fmt.Errorf("locking the tokens: %w", err)
	}
	defer unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.follow(ctx); err != nil {
		return err
	}
	return do()
}

func (t *Tokens) append(ctx context.Context, id, name, event string, p payload) ([]deploylog.Event, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("token %s: %w", name, err)
	}
	e := deploylog.Event{Deployment: id, Target: deploylog.Target("token/" + name), Name: event, Attempt: 1, Data: data}
	written, err := t.log.Append(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("deployment log: %s of token %s: %w", event, name, err)
	}
	return written, nil
}

// Identify is who authenticates by a token.
func (t *Tokens) Identify(ctx context.Context, secret string) (Identity, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.follow(ctx); err != nil {
		return Identity{}, err
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(secret, prefix), "_")
	of, known := t.byID[id]
	want := make([]byte, sha256.Size)
	if known {
		want = of.hash
	}
	is := sha256.Sum256([]byte(secret))
	same := subtle.ConstantTimeCompare(is[:], want) == 1
	if !known || !same || of.Status(t.now()) != "valid" {
		return Identity{}, fmt.Errorf("%w: the token is not valid", ErrUnknown)
	}
	return Identity{Name: "token " + of.Name, Grants: []Grant{of.Grant}}, nil
}
