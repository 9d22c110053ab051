// Package pages shows people in a browser what a server knows of a log: what is deployed where,
// how revisions and rollouts go on, runs, the log itself, and what waits for an approval.
//
// Pages are rendered here and need no script: links and forms do everything. The one script
// that there is asks for a page again when the log has something new that it shows, and puts
// what differs in its place. What a form records goes through the API as whoever sends it, so
// that nobody may do here what they may not do there.
package pages

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/managed"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/query"
)

// Options are what pages are made of.
type Options struct {
	Log   deploylog.Log
	Hosts pipelines.Hosts // of the inventory
	// Workers are those that build jobs at present, and the inventory that they are of.
	Workers func() (serve build.Workers, inventory string, err error)
	Objects objects.Store // what revisions carry
	// Workspace is the directory below which the logs of jobs are.
	Workspace string
	// Managed lists what runs made, on this machine; nil is nothing.
	Managed  func(context.Context, managed.Question) ([]*managed.Thing, error)
	Sessions *Sessions
	API      http.Handler // records what forms ask for, with the paths of the API
	Now      func() time.Time
	Version  string // of this program
	Logger   *slog.Logger
}

// Pages is all pages as an http.Handler.
type Pages struct {
	Options
	mux    *http.ServeMux
	looks  map[string]*template.Template // by name
	assets map[string]asset              // by path
	past   chan struct{}                 // held by each request that folds the past

	pipelines    *query.Pipelines
	environments *query.Environments
	builds       *query.Builds
	promotions   *promotions.Promotions
	remembered   remembered
}

// The limits of requests.
const (
	timeout  = 20 * time.Second
	mostPast = 2        // that fold the past at once
	maxForm  = 64 << 10 // bytes
)

// New are the pages of a log.
func New(o Options) (*Pages, error) {
	p := &Pages{
		Options: o, mux: http.NewServeMux(), past: make(chan struct{}, mostPast),
		pipelines: query.NewPipelines(o.Log, o.Now), environments: query.NewEnvironments(o.Log, o.Now), builds: query.NewBuilds(o.Log, o.Now),
		promotions: promotions.New(o.Log, o.Now),
	}
	var err error
	if p.assets, err = readAssets(); err != nil {
		return nil, err
	}
	if p.looks, err = p.parse(); err != nil {
		return nil, err
	}
	p.mux.HandleFunc("GET /assets/{file}", p.serveAsset)
	p.mux.HandleFunc("GET /sign-in", p.showSignIn)
	p.mux.HandleFunc("POST /sign-in", p.signIn)
	p.mux.HandleFunc("POST /sign-out", p.signOut)
	p.show("/{$}", "overview", p.overview)
	p.show("/environments/{name}", "environment", p.environment)
	p.show("/pipelines/{name}", "pipeline", p.pipeline)
	p.show("/environments/{name}/diff", "diff", p.environmentDiff)
	p.show("/pipelines/{name}/diff", "diff", p.pipelineDiff)
	p.list("/trace", "trace", p.trace)
	p.list("/runs", "runs", p.runs)
	p.list("/runs/{id}", "run", p.run)
	p.list("/things", "things", p.things)
	p.show("/builds", "builds", p.groups)
	p.show("/builds/{id}", "build", p.group)
	p.show("/builds/{id}/{job}", "job", p.job)
	p.list("/log", "log", p.log)
	p.show("/approvals", "approvals", p.approvals)
	p.mux.Handle("POST /approvals", p.reader(p.decide))
	p.mux.Handle("/", p.reader(func(w http.ResponseWriter, r *http.Request) {
		p.fail(w, r, http.StatusNotFound, "There is no such page.")
	}))
	return p, nil
}

// policy lets a page load what this server sends, and nothing else: no script within the
// page, no other site, no frame around it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer p.guard(w, r)
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // without any, forms would not say where they come from
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	p.mux.ServeHTTP(w, r)
}

// guard answers a request whose handler panicked.
func (p *Pages) guard(w http.ResponseWriter, r *http.Request) {
	fault := recover()
	if fault == nil {
		return
	}
	if err, is := fault.(error); is && errors.Is(err, http.ErrAbortHandler) {
		panic(fault)
	}
	p.Logger.Error("a page met an internal error", "method", r.Method, "path", r.URL.Path, "error", fmt.Sprint(fault))
	http.Error(w, "internal error; the log of the server says more", http.StatusInternalServerError)
}

// reader lets only those see a page who may read, and tells it who that is. Others are sent
// to sign in.
func (p *Pages) reader(show http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := p.Sessions.Identify(r)
		switch {
		case errors.Is(err, identity.ErrUnknown) && followedLink(r):
			// The cookie is not sent with what another site asks for, but with what this one does.
			w.Header().Set("Refresh", "0; url="+r.URL.RequestURI())
			p.plain(w, http.StatusOK, "Opening the page …")
		case errors.Is(err, identity.ErrUnknown) && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			http.Redirect(w, r, "/sign-in?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		case errors.Is(err, identity.ErrUnknown):
			p.fail(w, r, http.StatusUnauthorized, "Your session has ended: sign in, and do it again.")
		case err != nil:
			p.unknown("authenticating who asks for a page", err)
			p.fail(w, r, http.StatusServiceUnavailable, "Who asks cannot be found out at present.")
		case !who.MayRead():
			p.fail(w, r, http.StatusForbidden, "You may not read this.")
		default:
			ctx, cancel := context.WithTimeout(identity.In(r.Context(), who), timeout)
			defer cancel()
			show(w, r.WithContext(ctx))
		}
	})
}

// followedLink reports whether somebody comes from a page of another site.
func followedLink(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") == "navigate"
}

// page is what all pages have in common.
type page struct {
	Title   string
	Head    int64  // event up to which it is known
	At      int64  // event as of which it was asked for; 0 is now
	Again   int    // milliseconds after which it is asked for again, for what is not in the log; 0 is never
	Present bool   // it shows the present alone, whatever it was asked
	Follow  string // the targets whose events change it, see live.js; "" is that it is not followed
	Who     string
	Session bool   // who was authenticated by one
	Form    string // what forms prove with that they are of this page
	Tab     string // of the navigation
	Version string
	Waiting int // approvals
	Now     time.Time
	Path    string   // of the page, without what it is asked
	Newest  int64    // event of the log
	Asked   []detail // what the page was asked beside the moment
	Body    any

	look string // its template; "" is that of its path
	some bool   // who asks reads some pipelines and environments alone
}

// tab is an entry of the navigation.
type tab struct {
	Name, Path string
	Here       bool
	Count      int  // of what waits there
	Present    bool // it shows the present alone
}

// Tabs are the navigation.
func (p page) Tabs() []tab {
	tabs := []tab{
		{Name: "Overview", Path: "/", Here: p.Tab == "overview"},
		{Name: "Approvals", Path: "/approvals", Here: p.Tab == "approvals", Count: p.Waiting},
	}
	if p.some {
		return tabs
	}
	return append(tabs, []tab{
		{Name: "Runs", Path: "/runs", Here: p.Tab == "runs"},
		{Name: "Things", Path: "/things", Here: p.Tab == "things", Present: true},
		{Name: "Builds", Path: "/builds", Here: p.Tab == "builds"},
		{Name: "Log", Path: "/log", Here: p.Tab == "log"},
	}...)
}

// errNone is wrapped where what a page is to show is not there.
var errNone = errors.New("not there")

// show adds a page. look names its template.
func (p *Pages) show(pattern, look string, make func(*http.Request, *known) (page, error)) {
	p.add(pattern, look, false, make)
}

// list adds a page that shows events, and nothing that follows from all of them.
func (p *Pages) list(pattern, look string, make func(*http.Request, *known) (page, error)) {
	p.add(pattern, look, true, make)
}

func (p *Pages) add(pattern, look string, events bool, make func(*http.Request, *known) (page, error)) {
	p.mux.Handle("GET "+pattern, p.reader(func(w http.ResponseWriter, r *http.Request) {
		if !mayRead(identity.Of(r.Context()), pattern, r.PathValue("name")) {
			p.fail(w, r, http.StatusForbidden, "You may not read this: you read "+identity.Of(r.Context()).Reads()+".")
			return
		}
		k, release, err := p.known(r, events)
		if err == nil {
			defer release()
			var shown page
			if shown, err = make(r, k); err == nil {
				shown.At, shown.Head, shown.Newest = k.at, k.head, k.newest
				if shown.Present {
					shown.At = 0
				}
				shown.Asked = asked(r)
				var waiting []waitingApproval
				if waiting, err = p.approvalsFor(r, k); err == nil {
					if shown.some = !identity.Of(r.Context()).ReadsAll(); shown.some {
						shown.Follow = "" // events of others change the same pages
					}
					shown.Waiting = len(waiting)
					text := p.rendered(r, cmp.Or(shown.look, look), shown)
					release() // who asked may take the page slowly
					p.write(w, http.StatusOK, text)
					return
				}
			}
		}
		p.problem(w, r, err)
	}))
}

// problem answers with why a page cannot be shown.
func (p *Pages) problem(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, errAsked):
		p.fail(w, r, http.StatusBadRequest, err.Error())
	case errors.Is(err, errNone), errors.Is(err, query.ErrNotFound), errors.Is(err, pipelines.ErrNoPipeline), errors.Is(err, environments.ErrNoEnvironment), errors.Is(err, build.ErrNoGroup), errors.Is(err, build.ErrNoJob):
		why := err.Error()
		if who := identity.Of(r.Context()); !who.ReadsAll() { // the error may name what there is instead
			why = "There is nothing of this name that you may read: you read " + who.Reads() + "."
		}
		p.fail(w, r, http.StatusNotFound, why)
	case r.Context().Err() != nil:
		p.fail(w, r, http.StatusGatewayTimeout, "It took too long.")
	default:
		p.Logger.Error("a page failed", "path", r.URL.Path, "error", err)
		p.fail(w, r, http.StatusInternalServerError, "It failed; the log of the server says why.")
	}
}

// fail shows why there is nothing else to show.
func (p *Pages) fail(w http.ResponseWriter, r *http.Request, code int, why string) {
	p.render(w, r, code, "problem", page{Title: http.StatusText(code), Body: why})
}

// render writes a page, whole or not at all.
func (p *Pages) render(w http.ResponseWriter, r *http.Request, code int, look string, shown page) {
	p.write(w, code, p.rendered(r, look, shown))
}

// rendered is the text of a page; nil where it has none.
func (p *Pages) rendered(r *http.Request, look string, shown page) []byte {
	shown.Version, shown.Now, shown.Path = p.Version, p.Now(), r.URL.EscapedPath()
	if who := identity.Of(r.Context()); who.Name != "" {
		shown.Who, shown.Form, shown.Session = who.Name, p.Sessions.form(r, who), p.Sessions.has(r)
	}
	var text bytes.Buffer
	if err := p.looks[look].ExecuteTemplate(&text, "page", shown); err != nil {
		p.Logger.Error("a page cannot be rendered", "path", r.URL.Path, "error", err)
		return nil
	}
	return text.Bytes()
}

// write sends the text of a page.
func (p *Pages) write(w http.ResponseWriter, code int, text []byte) {
	if text == nil {
		http.Error(w, "internal error; the log of the server says more", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(code)
	_, _ = w.Write(text) // who asked may have gone
}

// plain answers with a page that has nothing but a sentence.
func (p *Pages) plain(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, "<!doctype html><html lang=en><title>Deployster</title><p>%s", template.HTMLEscapeString(text))
}
