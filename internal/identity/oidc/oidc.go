package oidc

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/deployster-go/deployster/internal/identity"
)

// Why a token is refused. Who sent it is told nothing of this; the log of the server has it,
// with the name of the issuer and nothing of the token.
var (
	errForm     = errors.New("it is not a token as issuers sign them")
	errIssuer   = errors.New("it is of an issuer that is not configured")
	errSlash    = errors.New("it names its issuer otherwise than is configured: the one has a slash at its end, and the other has none")
	errKey      = errors.New("its issuer has no key with that id")
	errSigned   = errors.New("it is not signed as it should be")
	errAudience = errors.New("it is for another audience")
	errExpired  = errors.New("it has expired, or says not when it does")
	errNotYet   = errors.New("it is not valid yet")
	errWho      = errors.New("it does not say who it is of, in the claim that is configured")
	errGrants   = errors.New("its claims are those of no grant")
)

const (
	skew      = time.Minute // by which clocks may differ
	mostToken = 16 << 10
	mostName  = 200 // bytes of the claim that says who it is
	sayEvery  = time.Minute
	mostSaid  = 1000
)

// Tokens authenticates by tokens of issuers.
type Tokens struct {
	now    func() time.Time
	logger *slog.Logger
	byURL  map[string]*issuer

	mu   sync.Mutex
	said map[string]time.Time // when a reason was last logged
}

// issuer is one that is configured, with its keys.
type issuer struct {
	Issuer
	keys *keys
}

// New accepts the tokens of issuers, whom it asks for their keys when they are needed.
func New(issuers []Issuer, now func() time.Time, logger *slog.Logger) (*Tokens, error) {
	t := &Tokens{now: now, logger: logger, byURL: map[string]*issuer{}, said: map[string]time.Time{}}
	for _, of := range issuers {
		k, err := newKeys(of, now)
		if err != nil {
			return nil, err
		}
		t.byURL[of.URL] = &issuer{Issuer: of, keys: k}
	}
	return t, nil
}

// Identify is who a token is of. It fails with identity.ErrUnknown where the token is not
// valid, and with another error where that cannot be found out.
func (t *Tokens) Identify(ctx context.Context, token string) (identity.Identity, error) {
	of, claims, err := t.verify(ctx, token)
	name := "?"
	if of != nil {
		name = of.Name
	}
	var who identity.Identity
	if err == nil {
		who, err = of.identify(claims, t.now())
	}
	switch {
	case err == nil:
		return who, nil
	case errors.Is(err, errUnreachable):
		t.say(slog.LevelError, name, err)
		return identity.Identity{}, fmt.Errorf("%w: issuer %s: %w", identity.ErrLater, name, err)
	default:
		t.say(slog.LevelInfo, name, err)
		return identity.Identity{}, fmt.Errorf("%w: a token of issuer %s: %w", identity.ErrUnknown, name, err)
	}
}

// say logs why a token was refused, of each issuer and reason now and then: anybody can send
// tokens that are.
func (t *Tokens) say(level slog.Level, name string, err error) {
	t.mu.Lock()
	last, again := t.said[name+" "+err.Error()]
	now := t.now()
	if len(t.said) > mostSaid {
		clear(t.said)
	}
	if !again || now.Sub(last) >= sayEvery || now.Before(last) {
		t.said[name+" "+err.Error()] = now
		again = false
	}
	t.mu.Unlock()
	if !again {
		t.logger.Log(context.Background(), level, "a token was refused", "issuer", name, "reason", err.Error())
	}
}

// verify returns the claims of a token that one of the issuers has signed.
func (t *Tokens) verify(ctx context.Context, token string) (*issuer, map[string]any, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(token) > mostToken {
		return nil, nil, errForm
	}
	// Whose token it is has to be known before its signature can be verified. What it says is
	// believed after that alone.
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, nil, errForm
	}
	claimed, err := decode(raw)
	if err != nil {
		return nil, nil, errForm
	}
	url, _ := claimed["iss"].(string)
	of := t.byURL[url]
	if of == nil {
		for _, known := range []string{strings.TrimSuffix(url, "/"), url + "/"} {
			if t.byURL[known] != nil {
				return t.byURL[known], nil, errSlash
			}
		}
		return nil, nil, errIssuer
	}
	// What the library says has parts of the token, and of claims nothing but that: those are
	// checked later.
	signature := &signature{issuer: of, failed: errSigned}
	verified, err := oidc.NewVerifier(of.URL, signature, &oidc.Config{
		SkipClientIDCheck: true, SkipExpiryCheck: true, SupportedSigningAlgs: of.Algorithms,
	}).Verify(ctx, token)
	if err != nil {
		return of, nil, signature.failed
	}
	var signed json.RawMessage
	if err := verified.Claims(&signed); err != nil {
		return of, nil, errForm
	}
	claims, err := decode(signed)
	if err != nil || claims["iss"] != of.URL {
		return of, nil, errIssuer
	}
	return of, claims, nil
}

// decode reads claims.
func decode(text []byte) (claims map[string]any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return claims, decoder.Decode(&claims)
}

// signature is that of one token.
type signature struct {
	*issuer
	failed error // why it is refused
}

// VerifySignature implements oidc.KeySet: the payload of a token that a key of the issuer has
// signed.
func (s *signature) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	payload, err := s.payload(ctx, token)
	if err != nil {
		s.failed = err
	}
	return payload, err
}

func (i *issuer) payload(ctx context.Context, token string) ([]byte, error) {
	var allowed []jose.SignatureAlgorithm
	for _, a := range i.Algorithms {
		allowed = append(allowed, jose.SignatureAlgorithm(a))
	}
	signed, err := jose.ParseSignedCompact(token, allowed)
	if err != nil || len(signed.Signatures) != 1 {
		return nil, errSigned
	}
	header := signed.Signatures[0].Header
	found, err := i.keys.find(ctx, header.KeyID)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, errKey
	}
	for _, key := range found {
		if key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if payload, err := signed.Verify(key.Key); err == nil {
			return payload, nil
		}
	}
	return nil, errSigned
}

// identify is who the claims of a token are of, which the issuer has signed.
func (i *issuer) identify(claims map[string]any, now time.Time) (identity.Identity, error) {
	if !slices.Contains(texts(claims["aud"]), i.Audience) {
		return identity.Identity{}, errAudience
	}
	if ends, ok := moment(claims["exp"]); !ok || !now.Before(ends.Add(skew)) {
		return identity.Identity{}, errExpired
	}
	for _, name := range []string{"nbf", "iat"} {
		if claims[name] == nil {
			continue
		}
		if begins, ok := moment(claims[name]); !ok || now.Add(skew).Before(begins) {
			return identity.Identity{}, errNotYet
		}
	}
	name, _ := claims[i.Identity].(string)
	if name == "" || len(name) > mostName || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return identity.Identity{}, errWho
	}
	// Where an address of mail says who it is, somebody must have confirmed it.
	if i.Identity == "email" && claims["email_verified"] != true && claims["email_verified"] != "true" {
		return identity.Identity{}, errWho
	}
	who := identity.Identity{Name: i.Name + " " + name}
	for _, g := range i.Grants {
		if g.has(claims) {
			who.Grants = append(who.Grants, g.Grant)
		}
	}
	if len(who.Grants) == 0 {
		return identity.Identity{}, errGrants
	}
	return who, nil
}

// has reports whether claims are those of a grant.
func (g Grant) has(claims map[string]any) bool {
	for name, values := range g.Claims {
		if !slices.ContainsFunc(texts(claims[name]), func(text string) bool { return slices.Contains(values, text) }) {
			return false
		}
	}
	return len(g.Claims) > 0
}

// texts are the values of a claim, which may be one or a list of them.
func texts(claim any) (all []string) {
	switch c := claim.(type) {
	case string:
		return []string{c}
	case bool, json.Number:
		return []string{fmt.Sprint(c)}
	case []any:
		for _, one := range c {
			if _, list := one.([]any); !list {
				all = append(all, texts(one)...)
			}
		}
	}
	return all
}

// moment is a time as tokens have it; ok is false for what is none.
func moment(claim any) (at time.Time, ok bool) {
	number, is := claim.(json.Number)
	if !is {
		return at, false
	}
	seconds, err := number.Float64()
	if err != nil || seconds < 0 || seconds > 1<<40 {
		return at, false
	}
	return time.Unix(int64(seconds), 0), true
}
