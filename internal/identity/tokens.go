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

// Create creates a token, and returns what authenticates by it, which nobody can find out
// later.
func (t *Tokens) Create(ctx context.Context, n New) (secret string, written []deploylog.Event, err error) {
	if n.Name == "" || strings.ContainsAny(n.Name, "/ ") {
		return "", nil, fmt.Errorf("%w: the name %q of a token must have neither slashes nor blanks, and not be empty", ErrToken, n.Name)
	}
	if !slices.Contains(Roles(), n.Role) {
		return "", nil, fmt.Errorf("%w: %q is no role: it is viewer, operator, approver or admin", ErrToken, n.Role)
	}
	if !n.Expires.IsZero() && !t.now().Before(n.Expires) {
		return "", nil, fmt.Errorf("%w: token %s would have expired already", ErrToken, n.Name)
	}
	random := make([]byte, sha256.Size)
	if _, err := rand.Read(random); err != nil {
		return "", nil, fmt.Errorf("creating token %s: %w", n.Name, err)
	}
	secret = prefix + n.ID + "_" + base64.RawURLEncoding.EncodeToString(random)
	hash := sha256.Sum256([]byte(secret))
	err = t.hold(ctx, func() error {
		if old := t.valid(n.Name); old != nil {
			return fmt.Errorf("%w: there is a valid token %s (event %d): revoke it, or give this one another name", ErrToken, n.Name, old.Seq)
		}
		written, err = t.append(ctx, n.ID, n.Name, TokenCreated, payload{Grant: n.Grant, Hash: hex.EncodeToString(hash[:]), Expires: n.Expires, By: n.By})
		return err
	})
	return secret, written, err
}

// Revoke has the token of a name authenticate nobody any more, from now on.
func (t *Tokens) Revoke(ctx context.Context, name, by string) (written []deploylog.Event, err error) {
	err = t.hold(ctx, func() error {
		of := t.valid(name)
		if of == nil {
			return fmt.Errorf("%w: there is no valid token %s: deployster token list shows them", ErrToken, name)
		}
		written, err = t.append(ctx, of.ID, name, TokenRevoked, payload{By: by})
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
