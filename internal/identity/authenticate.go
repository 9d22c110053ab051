package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// ErrUnknown is wrapped where a request does not say who asks, or says it wrongly.
var ErrUnknown = errors.New("nobody was authenticated")

// ErrLater is wrapped where who asks cannot be found out now, which was logged by who knows why.
var ErrLater = errors.New("who asks cannot be found out at present")

// Authenticator finds out who asks: by a token, else by a client certificate that was
// verified, else by who is at the other end of a Unix socket.
type Authenticator struct {
	Tokens   *Tokens
	Issued   Issued // may be nil: nobody else's tokens are accepted
	Locals   Locals
	Subjects map[string]Grant // by the common names of client certificates

	// Authorities are those of client certificates now: a connection may be older than what they
	// were changed to. nil keeps those with which each connection began.
	Authorities func() *x509.CertPool
}

// Issued authenticates by tokens that others have issued.
type Issued interface {
	// Identify fails with ErrUnknown where a token is not valid, and with another error where
	// that cannot be found out.
	Identify(ctx context.Context, token string) (Identity, error)
}

// Identify is who a request is of. What it says wrongly is not tried in another way.
func (a Authenticator) Identify(r *http.Request) (Identity, error) {
	switch headers := r.Header.Values("Authorization"); {
	case len(headers) > 1:
		return Identity{}, fmt.Errorf("%w: there is more than one header Authorization", ErrUnknown)
	case len(headers) == 1:
		scheme, text, _ := strings.Cut(headers[0], " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return Identity{}, fmt.Errorf("%w: the header Authorization has no bearer token", ErrUnknown)
		}
		text = strings.TrimSpace(text)
		if a.Issued != nil && !strings.HasPrefix(text, prefix) {
			return a.Issued.Identify(r.Context(), text)
		}
		return a.Tokens.Identify(r.Context(), text)
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		name := r.TLS.VerifiedChains[0][0].Subject.CommonName
		if !current(r.TLS.VerifiedChains, a.Tokens.now()) {
			return Identity{}, fmt.Errorf("%w: the certificate of %q is not valid any more", ErrUnknown, name)
		}
		if !a.trusted(r.TLS) {
			return Identity{}, fmt.Errorf("%w: the authority of the certificate of %q is trusted no more", ErrUnknown, name)
		}
		if grant, known := a.Subjects[name]; known && name != "" {
			return Identity{Name: "certificate " + name, Grants: []Grant{grant}}, nil
		}
		return Identity{}, fmt.Errorf("%w: nobody is known by the certificate of %q", ErrUnknown, name)
	}
	if p, ok := PeerOf(r.Context()); ok {
		return a.Locals.identify(p, r)
	}
	return Identity{}, fmt.Errorf("%w: there is no token", ErrUnknown)
}

// current reports whether one of the chains that were verified is valid now: a connection, and
// what is streamed by it, may last longer than the certificates with which it began, and the clock may be set.
func current(chains [][]*x509.Certificate, now time.Time) bool {
	return slices.ContainsFunc(chains, func(chain []*x509.Certificate) bool {
		return !slices.ContainsFunc(chain, func(c *x509.Certificate) bool { return now.After(c.NotAfter) || now.Before(c.NotBefore) })
	})
}

// trusted reports whether the certificate of a connection is of one of the authorities that there
// are now.
func (a Authenticator) trusted(c *tls.ConnectionState) bool {
	if a.Authorities == nil {
		return true
	}
	roots, between := a.Authorities(), x509.NewCertPool()
	if roots == nil { // which would be those of the system
		return false
	}
	for _, chain := range c.VerifiedChains {
		for _, of := range chain[1:] {
			between.AddCert(of)
		}
	}
	for _, of := range c.PeerCertificates {
		between.AddCert(of)
	}
	_, err := c.VerifiedChains[0][0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: a.Tokens.now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil
}
