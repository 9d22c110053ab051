package pages

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/deployster-go/deployster/internal/identity"
)

// signInBody is what the page to sign in shows.
type signInBody struct {
	Next string // where it goes on
	Why  string // the last try failed
}

func (p *Pages) showSignIn(w http.ResponseWriter, r *http.Request) {
	next := local(r.URL.Query().Get("next"))
	if who, err := p.Sessions.Identify(r); err == nil && who.MayRead() {
		http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // local makes it a path of this server
		return
	}
	p.render(w, r, http.StatusOK, "sign-in", page{Title: "Sign in", Body: signInBody{Next: next}})
}

// local is a path of this server; what would lead elsewhere leads to the first page.
func local(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(next, "/") ||
		strings.HasPrefix(next, "//") || strings.Contains(next, `\`) || strings.HasPrefix(u.Path, "/sign-") {
		return "/"
	}
	return u.RequestURI()
}

// signIn begins a session for who shows a token.
func (p *Pages) signIn(w http.ResponseWriter, r *http.Request) {
	again := func(code int, why string) {
		p.render(w, r, code, "sign-in", page{Title: "Sign in", Body: signInBody{Next: local(r.PostFormValue("next")), Why: why}})
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		again(http.StatusForbidden, "This form was not sent by this page.")
		return
	}
	if err := r.ParseForm(); err != nil {
		again(http.StatusBadRequest, "The form cannot be read.")
		return
	}
	token := strings.TrimSpace(r.PostFormValue("token"))
	if token == "" || strings.ContainsAny(token, "\r\n\x00 ") {
		again(http.StatusUnprocessableEntity, "Give a token: one line, as deployster token create has printed it.")
		return
	}
	who, err := p.Sessions.identify(authorized(r, token))
	switch {
	case errors.Is(err, identity.ErrUnknown):
		again(http.StatusUnauthorized, "The token is not valid. It may have expired, or been revoked.")
	case err != nil:
		p.unknown("authenticating who signs in", err)
		again(http.StatusServiceUnavailable, "Who asks cannot be found out at present.")
	case !who.MayRead():
		again(http.StatusForbidden, "Who has this token may not read anything.")
	default:
		p.Sessions.begin(w, r, token)
		http.Redirect(w, r, local(r.PostFormValue("next")), http.StatusSeeOther)
	}
}

// signOut ends a session.
func (p *Pages) signOut(w http.ResponseWriter, r *http.Request) {
	who, err := p.Sessions.Identify(r)
	if err == nil && !p.Sessions.sent(r, who) {
		p.fail(w, r, http.StatusForbidden, "This form was not sent by a page that you were shown. Open the page again.")
		return
	}
	p.Sessions.end(w, r)
	http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
}

// unknown logs why it could not be found out who asks, unless that is logged already: anybody may ask.
func (p *Pages) unknown(what string, err error) {
	if !errors.Is(err, identity.ErrLater) {
		p.Logger.Error(what, "error", err)
	}
}
