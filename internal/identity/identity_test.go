package identity_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/must"
)

func TestRolesAndWhereTheyAreFor(t *testing.T) {
	scoped := identity.Grant{Role: identity.Operator, Pipelines: []string{"gateway"}, Environments: []string{"shop/prod"}}
	some := identity.Grant{Role: identity.Viewer, Pipelines: []string{"gateway"}, Environments: []string{"shop/prod"}}
	for _, c := range []struct {
		grant  identity.Grant
		needed identity.Role
		kind   string
		name   string
		may    bool
	}{
		{identity.Grant{Role: identity.Viewer}, identity.Viewer, "", "", true},
		{identity.Grant{Role: identity.Viewer}, identity.Operator, identity.Pipelines, "gateway", false},
		{identity.Grant{Role: identity.Operator}, identity.Operator, identity.Pipelines, "gateway", true},
		{identity.Grant{Role: identity.Operator}, identity.Approver, identity.Pipelines, "gateway", false},
		{identity.Grant{Role: identity.Approver}, identity.Approver, identity.Pipelines, "gateway", true},
		{identity.Grant{Role: identity.Approver}, identity.Operator, identity.Pipelines, "gateway", false},
		{identity.Grant{Role: identity.Admin}, identity.Approver, identity.Pipelines, "gateway", true},
		{identity.Grant{Role: identity.Operator}, identity.Admin, "", "", false},
		{identity.Grant{Role: "root"}, identity.Viewer, "", "", false},
		{identity.Grant{}, identity.Viewer, "", "", false},
		{identity.Grant{Role: identity.Admin}, "", "", "", false},
		{scoped, identity.Operator, identity.Pipelines, "gateway", true},
		{scoped, identity.Operator, identity.Pipelines, "shop/prod", false},
		{scoped, identity.Operator, identity.Environments, "shop/prod", true},
		{scoped, identity.Operator, identity.Environments, "gateway", false},
		{scoped, identity.Operator, "", "gateway", false},
		{scoped, identity.Operator, identity.Pipelines, "", false},
		{scoped, identity.Viewer, "", "", true},
		{some, identity.Viewer, "", "", false},
		{some, identity.Viewer, "", "gateway", false},
		{some, identity.Viewer, identity.Pipelines, "gateway", true},
		{some, identity.Viewer, identity.Pipelines, "shop/prod", false},
		{some, identity.Viewer, identity.Pipelines, "", false},
		{some, identity.Viewer, identity.Environments, "shop/prod", true},
		{some, identity.Viewer, "builds", "gateway", false},
		{some, identity.Operator, identity.Pipelines, "gateway", false},
	} {
		who := identity.Identity{Grants: []identity.Grant{c.grant}}
		assert.Equal(t, c.may, who.May(c.needed, c.kind, c.name), "%+v, %s of %s %q: want %v", c.grant, c.needed, c.kind, c.name, c.may)
	}
}

func known(t *testing.T, tokens *identity.Tokens, text string) bool {
	who, err := tokens.Identify(t.Context(), text)
	assert.True(t, (err != nil || who.Name == "token ci") && (err == nil || errors.Is(err, identity.ErrUnknown)), "%+v, %v", who, err)
	return err == nil
}

func TestATokenAuthenticatesUntilItEnds(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	memory := logtest.NewMemory()
	clock := func() time.Time { return now }
	tokens, other := identity.NewTokens(memory.Open(), clock), identity.NewTokens(memory.Open(), clock)
	ctx := t.Context()
	secret, events, err := tokens.Create(ctx, identity.New{Name: "ci", ID: "01A", Grant: identity.Grant{Role: identity.Operator}, Expires: now.Add(time.Hour), By: "ada@vm"})
	require.True(t, err == nil && len(events) == 1, "%v %v", events, err)
	wantHidden(t, events[0], secret)
	knows := func(text string) bool {
		one, both := known(t, tokens, text), known(t, other, text) // also the process that did not create it
		assert.Equal(t, both, one, "they do not agree on %q", text)
		return one
	}
	assert.True(t, knows(secret))
	for _, wrong := range []string{"", "dpl_", "dpl_01A_", secret[:len(secret)-1], secret + "A", "dpl_01B_" + secret[len("dpl_01A_"):], strings.TrimPrefix(secret, "dpl_"), strings.ToUpper(secret)} {
		assert.False(t, knows(wrong), wrong)
	}
	_, _, err = other.Create(ctx, identity.New{Name: "ci", ID: "01C", Grant: identity.Grant{Role: identity.Viewer}})
	assert.ErrorIs(t, err, identity.ErrToken, "a second one of its name")
	for _, step := range []struct {
		by    time.Duration // by which the clock is set
		valid bool
	}{{-5 * time.Hour, true}, {5*time.Hour + 59*time.Minute, true}, {12 * time.Hour, false}, {-12 * time.Hour, true}, {-59 * time.Minute, true}} {
		now = now.Add(step.by)
		assert.Equal(t, step.valid, knows(secret), "at %s", now)
	}
	now = now.Add(time.Hour)
	assert.False(t, knows(secret), "it is known after its end")
	assert.ErrorIs(t, must.Fail(other.Revoke(ctx, "ci", identity.Revoke{By: "eve"})), identity.ErrToken)
	again, _, err := other.Create(ctx, identity.New{Name: "ci", ID: "01D", Grant: identity.Grant{Role: identity.Viewer}})
	require.NoError(t, err)
	assert.True(t, knows(again))
	require.NoError(t, must.Fail(tokens.Revoke(ctx, "ci", identity.Revoke{By: "ada@vm"})))
	assert.False(t, knows(again), "it is known though it was revoked")
	wantEnded(t, other, now)
	now = now.Add(-5 * time.Hour) // when it is revoked
	early, _, err := tokens.Create(ctx, identity.New{Name: "early", ID: "01E", Grant: identity.Grant{Role: identity.Viewer}, Expires: now.Add(time.Hour)})
	require.NoError(t, err)
	require.NoError(t, must.Fail(other.Revoke(ctx, "early", identity.Revoke{By: "ada@vm"})))
	for range 2 {
		assert.False(t, knows(early), "it is known at %s though it was revoked", now)
		now = now.Add(5 * time.Hour)
	}
}

// Who makes the secret elsewhere sends a hash and an id: neither may be what it cannot be, nor
// may the token enter the history of something else.
func TestWhatIsNoTokenIsNotIssued(t *testing.T) {
	memory := logtest.NewMemory()
	log, now := memory.Open(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	require.NoError(t, must.Fail(log.Append(t.Context(), deploylog.Event{Deployment: "01RUN", Target: "run/web", Name: "run-started", Attempt: 1})))
	tokens := identity.NewTokens(log, func() time.Time { return now })
	hash := strings.Repeat("0a", 32)
	for name, i := range map[string]identity.Issue{
		"no hash":                  {Token: "01A", Role: identity.Viewer},
		"a short hash":             {Token: "01A", Role: identity.Viewer, Hash: hash[2:]},
		"a hash that is none":      {Token: "01A", Role: identity.Viewer, Hash: strings.Repeat("zz", 32)},
		"no id":                    {Role: identity.Viewer, Hash: hash},
		"an id that ends early":    {Token: "01A_B", Role: identity.Viewer, Hash: hash},
		"an id with lines":         {Token: "01A\n", Role: identity.Viewer, Hash: hash},
		"a long id":                {Token: strings.Repeat("A", 65), Role: identity.Viewer, Hash: hash},
		"the id of something else": {Token: "01RUN", Role: identity.Viewer, Hash: hash},
		"no role":                  {Token: "01A", Hash: hash},
		"a role that is none":      {Token: "01A", Role: "root", Hash: hash},
		"a pipeline without name":  {Token: "01A", Role: identity.Viewer, Hash: hash, Pipelines: []string{""}},
		"an end that is past":      {Token: "01A", Role: identity.Viewer, Hash: hash, Expires: now},
	} {
		written, err := tokens.Issue(t.Context(), "ci", i)
		assert.True(t, errors.Is(err, identity.ErrToken) && len(written) == 0, "%s: %v, %v", name, written, err)
	}
	for _, name := range []string{"", "a/b", "a b", "a\tb", strings.Repeat("n", 101)} {
		assert.ErrorIs(t, must.Fail(tokens.Issue(t.Context(), name, identity.Issue{Token: "01A", Role: identity.Viewer, Hash: hash})), identity.ErrToken)
	}
	require.NoError(t, must.Fail(tokens.Issue(t.Context(), "ci", identity.Issue{Token: "01A", Role: identity.Viewer, Hash: hash})))
}

// wantEnded has the first token listed as expired, and the second one as revoked.
func wantEnded(t *testing.T, tokens *identity.Tokens, now time.Time) {
	t.Helper()
	list, err := tokens.List(t.Context())
	if err != nil || len(list) != 2 || list[0].Status(now) != "expired" || list[1].Status(now) != "revoked" || list[1].Revoked != "ada@vm" {
		t.Errorf("%+v, %v", list, err)
	}
}

// wantHidden checks that an event does not hold a token, nor what is secret of it.
func wantHidden(t *testing.T, e deploylog.Event, token string) {
	t.Helper()
	if text := string(e.Data); strings.Contains(text, token) || strings.Contains(text, token[len("dpl_01A_"):]) {
		t.Errorf("the log has the token itself: %s", text)
	}
}

// Whoever can append to the log can do anything; what is damaged authenticates nobody.
func TestEventsOfTokensThatCannotBeReadAreNone(t *testing.T) {
	log := logtest.NewMemory().Open()
	for i, data := range []string{`{}`, `[]`, `{"role":"admin","hash":""}`, `{"role":"admin","hash":"zz"}`, ``} {
		_, err := log.Append(t.Context(), deploylog.Event{
			Deployment: string(rune('a' + i)), Target: "token/x", Name: identity.TokenCreated, Attempt: 1, Data: []byte(data),
		})
		require.NoError(t, err)
	}
	tokens := identity.NewTokens(log, time.Now)
	assert.Empty(t, must.Get(tokens.List(t.Context()))(t))
	assert.ErrorIs(t, must.Fail(tokens.Identify(t.Context(), "dpl_a_")), identity.ErrUnknown)
}

// The system says who has connected; what they say themselves is of no use.
func TestWhoHasConnectedToASocketIsKnown(t *testing.T) {
	l := must.Get(net.Listen("unix", filepath.Join(t.TempDir(), "s")))(t)
	seen := make(chan identity.Peer, 1)
	s := &http.Server{ConnContext: identity.ConnContext, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		p, _ := identity.PeerOf(r.Context())
		seen <- p
	})}
	t.Cleanup(func() { _ = s.Close() })
	go func() { _ = s.Serve(l) }()
	c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", l.Addr().String())
	}}}
	answer := must.Get(c.Get("http://socket/"))(t)
	_ = answer.Body.Close()
	if p := <-seen; p.UID != os.Getuid() || p.User == "" {
		t.Errorf("%+v, want uid %d", p, os.Getuid())
	}
}

func TestLocalUsersHaveTheirRoles(t *testing.T) {
	a := identity.Authenticator{
		Tokens: identity.NewTokens(logtest.NewMemory().Open(), time.Now),
		Locals: identity.Locals{Own: 7, Host: "vm", Roles: map[string]identity.Role{"ada": identity.Operator}},
	}
	for p, want := range map[identity.Peer]identity.Role{{UID: 0, User: "root"}: identity.Admin, {UID: 7, User: "deploy"}: identity.Admin, {UID: 8, User: "ada"}: identity.Operator, {UID: 9, User: "eve"}: identity.Viewer} {
		r := httptest.NewRequestWithContext(identity.WithPeer(t.Context(), p), http.MethodGet, "/", nil)
		who, err := a.Identify(r)
		assert.True(t, err == nil && who.Name == p.User+"@vm" && who.Grants[0].Role == want, "%+v is %+v, %v", p, who, err)
		// A token that is wrong is not made up for by who has connected.
		for _, header := range []string{"Bearer wrong", "Basic cm9vdDo=", ""} {
			r.Header.Set("Authorization", header)
			assert.ErrorIs(t, must.Fail(a.Identify(r)), identity.ErrUnknown, header)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	assert.ErrorIs(t, must.Fail(a.Identify(r)), identity.ErrUnknown)
}

func TestACertificateThatExpiresIsNoneOnAConnectionThatStaysOpen(t *testing.T) {
	began := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	now := began
	a := identity.Authenticator{
		Tokens:   identity.NewTokens(logtest.NewMemory().Open(), func() time.Time { return now }),
		Subjects: map[string]identity.Grant{"ci": {Role: identity.Operator}},
	}
	until := func(hours int) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: "ci"}, NotBefore: began.Add(-time.Hour), NotAfter: began.Add(time.Duration(hours) * time.Hour)}
	}
	own, short, long := until(5), until(1), until(9)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for _, c := range []struct {
		chains [][]*x509.Certificate
		valid  int // for so many hours
	}{
		{[][]*x509.Certificate{{own, long}}, 5},
		{[][]*x509.Certificate{{own, short}}, 1},
		{[][]*x509.Certificate{{own, short}, {own, long}}, 5},
	} {
		r.TLS = &tls.ConnectionState{VerifiedChains: c.chains}
		for _, hour := range []int{0, 1, 2, 3, 4, 5, 6, 7, -5, -1, 0, 7, -2, 1} { // the clock is also set back and ahead
			now = began.Add(time.Duration(hour) * time.Hour)
			who, err := a.Identify(r)
			if valid := -1 <= hour && hour <= c.valid; valid != (err == nil) || !valid && !errors.Is(err, identity.ErrUnknown) || valid && who.Name != "certificate ci" {
				t.Errorf("after %d hours, of a certificate that is valid for %d: %+v, %v", hour, c.valid, who, err)
			}
		}
	}
}

// issue makes a certificate of a name, by an authority or by itself.
func issue(t *testing.T, name string, by *x509.Certificate, with *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: by == nil, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if by == nil {
		by, with = of, key
	}
	made := must.Get(x509.CreateCertificate(rand.Reader, of, by, key.Public(), with))(t)
	read := must.Get(x509.ParseCertificate(made))(t)
	return read, key
}

// Whose authority is taken away is nobody, also on a connection that is open, or is taken up again.
func TestACertificateOfAFormerAuthorityIsNone(t *testing.T) {
	former, key := issue(t, "former", nil, nil)
	own, _ := issue(t, "ci", former, key)
	other, _ := issue(t, "other", nil, nil)
	var now *x509.CertPool
	a := identity.Authenticator{
		Tokens:      identity.NewTokens(logtest.NewMemory().Open(), time.Now),
		Subjects:    map[string]identity.Grant{"ci": {Role: identity.Operator}},
		Authorities: func() *x509.CertPool { return now },
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{own}, VerifiedChains: [][]*x509.Certificate{{own, former}}}
	for _, c := range []struct {
		of    []*x509.Certificate
		valid bool
	}{{[]*x509.Certificate{former}, true}, {[]*x509.Certificate{other, former}, true}, {[]*x509.Certificate{other}, false}, {nil, false}} {
		now = x509.NewCertPool()
		for _, of := range c.of {
			now.AddCert(of)
		}
		if who, err := a.Identify(r); c.valid != (err == nil) || !c.valid && !errors.Is(err, identity.ErrUnknown) || c.valid && who.Name != "certificate ci" {
			t.Errorf("%+v, %v, valid %v", who, err, c.valid)
		}
	}
	now = nil
	assert.ErrorIs(t, must.Fail(a.Identify(r)), identity.ErrUnknown)
}
