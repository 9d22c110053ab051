package pages

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deployster-go/deployster/internal/identity"
)

// Sessions are those of people who have signed in with a token. They are kept in memory: when
// the server ends, or another one answers, people sign in again. Nothing of the token is in
// the cookie, which is random, and nothing by which one could use the cookie is kept.
type Sessions struct {
	now      func() time.Time
	identify func(*http.Request) (identity.Identity, error)
	secure   bool // whoever asks does so by TLS, whether or not it ends here
	key      [sha256.Size]byte

	mu  sync.Mutex
	all map[[sha256.Size]byte]session // by the hash of what the cookie has
}

// session is one of a token. It is good for what the token is, and no longer.
type session struct {
	token string
	began time.Time
}

const (
	lasts        = 12 * time.Hour
	mostSessions = 10_000
	cookieBytes  = 32
)

// NewSessions are none yet. identify authenticates a request that has no session; secure is
// that the cookie is only to be sent by TLS, also where a request has come without.
func NewSessions(now func() time.Time, secure bool, identify func(*http.Request) (identity.Identity, error)) *Sessions {
	s := &Sessions{now: now, identify: identify, secure: secure, all: map[[sha256.Size]byte]session{}}
	_, _ = rand.Read(s.key[:]) // which never fails
	return s
}

// Identify is who a request is of: by what it says itself, else by its session. A session
// counts where something is read, and for forms, which prove that they are of a page; it
// records nothing by the API itself.
func (s *Sessions) Identify(r *http.Request) (identity.Identity, error) {
	if token, ok := s.token(r); ok {
		return s.identify(authorized(r, token))
	}
	return s.identify(r)
}

// authorized is a request that shows a token.
func authorized(r *http.Request, token string) *http.Request {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// token is that of the session of a request, where that counts.
func (s *Sessions) token(r *http.Request) (token string, ok bool) {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if len(r.Header.Values("Authorization")) > 0 || !reads && strings.HasPrefix(r.URL.Path, "/v1/") {
		return "", false
	}
	id, ok := s.cookie(r)
	if !ok {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	is, ok := s.all[id]
	if ok && s.now().Sub(is.began) >= lasts {
		delete(s.all, id)
		return "", false
	}
	return is.token, ok
}

// has reports whether a request has a session.
func (s *Sessions) has(r *http.Request) bool {
	_, ok := s.token(r)
	return ok
}

// name is that of the cookie. One that is only sent by TLS has a name that browsers give to
// no other, so that another site below the same domain cannot set it.
func (s *Sessions) name(r *http.Request) string {
	if s.secure || r.TLS != nil {
		return "__Host-deployster-session"
	}
	return "deployster-session"
}

func (s *Sessions) cookie(r *http.Request) (id [sha256.Size]byte, ok bool) {
	c, err := r.Cookie(s.name(r))
	if err != nil {
		return id, false
	}
	text, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || len(text) != cookieBytes {
		return id, false
	}
	return sha256.Sum256(text), true
}

// begin has a session begin for who has shown a token. The one before ends.
func (s *Sessions) begin(w http.ResponseWriter, r *http.Request, token string) {
	s.end(w, r)
	text := make([]byte, cookieBytes)
	_, _ = rand.Read(text) // which never fails
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	s.all[sha256.Sum256(text)] = session{token: token, began: s.now()}
	s.set(w, r, base64.RawURLEncoding.EncodeToString(text), int(lasts/time.Second))
}

// forget makes room: sessions that have ended go, and where there are too many the oldest. A
// token that nobody uses any more is not to stay in the memory.
func (s *Sessions) forget() {
	maps.DeleteFunc(s.all, func(_ [sha256.Size]byte, is session) bool { return s.now().Sub(is.began) >= lasts })
	if len(s.all) < mostSessions {
		return
	}
	var began []time.Time
	for _, is := range s.all {
		began = append(began, is.began)
	}
	slices.SortFunc(began, time.Time.Compare)
	oldest := began[len(began)/10]
	for id, is := range s.all {
		if !is.began.After(oldest) {
			delete(s.all, id)
		}
	}
}

// end ends the session of a request, if it has one.
func (s *Sessions) end(w http.ResponseWriter, r *http.Request) {
	if id, ok := s.cookie(r); ok {
		s.mu.Lock()
		delete(s.all, id)
		s.mu.Unlock()
		w.Header().Del("Set-Cookie")
		s.set(w, r, "", -1)
	}
}

func (s *Sessions) set(w http.ResponseWriter, r *http.Request, value string, age int) {
	w.Header().Del("Set-Cookie")
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure wherever TLS is: without, on this machine, browsers would not keep it
		Name: s.name(r), Value: value, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.secure || r.TLS != nil,
	})
}

// form is what a form of a page proves with that it is of a page which this person was shown.
func (s *Sessions) form(r *http.Request, who identity.Identity) string {
	mac := hmac.New(sha256.New, s.key[:])
	if id, ok := s.cookie(r); ok && s.has(r) {
		_, _ = mac.Write(append([]byte("session "), id[:]...))
	} else {
		_, _ = mac.Write([]byte("identity " + who.Name))
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// sent reports whether a request is a form of a page that was shown to this person.
func (s *Sessions) sent(r *http.Request, who identity.Identity) bool {
	return http.NewCrossOriginProtection().Check(r) == nil && hmac.Equal([]byte(r.PostFormValue("form")), []byte(s.form(r, who)))
}
