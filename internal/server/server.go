// Package server is the API of the deployment log over HTTP: what reads, and what
// records. It decides nothing itself. A handler checks who asks, decodes, calls what the
// command line calls, and encodes what that returns.
//
// An operation exists only in the table that Operations returns, with the role that it
// needs; see register.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/deployster-go/deployster/control/apply"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/managed"
	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/feed"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/places"
	"github.com/deployster-go/deployster/internal/proposal"
	"github.com/deployster-go/deployster/internal/query"
)

// Options are what a server is made of.
type Options struct {
	Log     deploylog.Log
	Objects objects.Store // what revisions carry
	Now     func() time.Time
	NewID   func() string // of what begins now
	Hosts   Hosts         // that queries select from

	// Runs are what the server applies itself; nil is nothing.
	Runs *apply.Runs

	Workspace string           // below which the logs of jobs are
	Places    []string         // other directories of the machine that no answer names
	Artifacts *artifacts.Store // of build groups
	Workers   Workers          // where jobs of build groups are done; nil is nowhere

	// Things are what tasks make on their hosts; see environments.Identify. It may be nil.
	Things func(tasks.Task) []tasks.Thing

	// Bounded finds out what revisions would bring; the zero one nothing, which is found out when it is done.
	Bounded work.Bounded

	// Managed lists what runs made, on this machine; nil is that it is not known.
	Managed func(context.Context, managed.Question) ([]*managed.Thing, error)

	Version string // of this program
	Logger  *slog.Logger

	// Identify authenticates a request. It fails with identity.ErrUnknown for an unknown caller.
	Identify func(*http.Request) (identity.Identity, error)

	// Commands is told of each that is carried out; nil is nobody.
	Commands *reconcile.Precedence

	// Failed is told why the log takes nothing any more before it is opened again, perhaps more
	// than once; may be nil.
	Failed func(error)

	Heartbeat time.Duration // how often a quiet stream of events says that it is alive; 0 is 15 s
	Stalled   time.Duration // how long who follows events may take nothing of them; 0 is 30 s
}

// Server is the API as an http.Handler, for all paths below /v1/.
type Server struct {
	Options
	api        huma.API
	mux        *http.ServeMux
	operations []Operation

	pipelines    *query.Pipelines
	promotions   *promotions.Promotions
	environments *environments.Environments
	builds       *builds.Builds
	tokens       *identity.Tokens
	requests     *requests
	feed         *feed.Feed // for who follows the log
	snapshots    map[string]*snapshots
	sending      chan struct{} // held by each who is sent a snapshot
	verifying    chan struct{}
	things       managed.Parts
	large        *places.Places // of requests whose bodies may be large
	outside      func(text string) string
}

// The limits of requests.
const (
	maxBody  = 1 << 20
	maxLarge = 8           // requests with larger bodies at once
	timeout  = time.Minute // of a request that streams nothing, when it has come
)

// New is the API of a log.
func New(o Options) *Server {
	if o.Heartbeat == 0 {
		o.Heartbeat = 15 * time.Second
	}
	if o.Stalled == 0 {
		o.Stalled = 30 * time.Second
	}
	if o.Hosts == nil {
		o.Hosts = work.FixedHosts("", nil, errors.New("the server has no inventory"))
	}
	if o.Workers == nil {
		o.Workers = noWorkers{}
	}
	s := &Server{Options: o, mux: http.NewServeMux(), verifying: make(chan struct{}, 1), sending: make(chan struct{}, maxSending), large: places.New(maxLarge)}
	s.outside = outside(append([]string{o.Workspace}, o.Places...))
	s.requests = &requests{log: o.Log, now: o.Now}
	log := s.recording()
	s.pipelines, s.environments, s.builds = query.NewPipelines(log, o.Now), environments.New(log, o.Now), builds.New(log, o.Now)
	s.environments.Identify(o.Things, o.Hosts.Version)
	s.promotions, s.tokens = promotions.New(log, o.Now), identity.NewTokens(log, o.Now)
	s.feed = feed.New(feed.Options{Log: o.Log, Encode: textOf})
	s.api = humago.New(s.mux, config(o.Version))
	describe(s.api.OpenAPI().Components.Schemas)
	s.registerLog()
	s.registerSnapshots()
	s.registerLists()
	s.registerThings()
	s.registerReads()
	s.registerPromotions()
	s.registerJobLog()
	s.registerObjects()
	s.registerArtifacts()
	s.registerWorkers()
	s.registerInventory()
	s.registerCommands()
	s.registerRuns()
	s.registerDocument()
	return s
}

// config is that of the API, which has no operations but those that are registered.
func config(version string) huma.Config {
	c := huma.DefaultConfig("Deployster", version)
	c.Components = &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", schemaName)}
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", ""
	strict := huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: proposal.Unmarshal}
	c.Formats = map[string]huma.Format{"application/json": strict, "json": strict}
	c.CreateHooks = nil // which would add where its schema is to every document
	c.Info.Description = "The deployment log, what follows from it, and the commands that record."
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {
		Type: "http", Scheme: "bearer", Description: "A token that deployster token create has printed.",
	}}
	c.Security = []map[string][]string{{"token": {}}}
	return c
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Readers(http.HandlerFunc(s.route)).ServeHTTP(w, r)
}

// Readers lets only those ask a handler who may read, and tells it who that is.
func (s *Server) Readers(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.guard(w, r)
		who, err := s.Identify(r)
		switch {
		case errors.Is(err, identity.ErrUnknown):
			w.Header().Set("WWW-Authenticate", `Bearer realm="deployster"`)
			refuse(w, http.StatusUnauthorized, "a valid token is needed")
			return
		case err != nil:
			if !errors.Is(err, identity.ErrLater) { // which anybody can have said as often as they send something
				s.Logger.Error("authenticating a request", "error", err)
			}
			refuse(w, http.StatusServiceUnavailable, "who asks cannot be found out at present, and the log of the server says why: try again later")
			return
		case !who.MayRead():
			refuse(w, http.StatusForbidden, "you may not do this")
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		h.ServeHTTP(w, r.WithContext(identity.In(r.Context(), who)))
	})
}

// AllReaders lets only those ask a handler who may read everything.
func (s *Server) AllReaders(h http.Handler) http.Handler {
	return s.Readers(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who := identity.Of(r.Context()); !who.ReadsAll() {
			refuse(w, http.StatusForbidden, "you may not do this: it needs the role viewer for everything, and you read "+who.Reads())
			return
		}
		h.ServeHTTP(w, r)
	}))
}

// route hands a request to its operation. A path that is written otherwise than it is, such
// as with two slashes, is of none, and no caller is redirected.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	if asked := r.URL.EscapedPath(); path.Clean(asked) != asked {
		refuse(w, http.StatusNotFound, nothingThere)
		return
	}
	if _, pattern := s.mux.Handler(r); pattern == "" {
		s.notThere(w, r)
		return
	}
	w.Header().Set("Deployster-Log", s.Log.ID())
	s.mux.ServeHTTP(w, r)
}

// notThere answers a request for which there is no operation.
func (s *Server) notThere(w http.ResponseWriter, r *http.Request) {
	probe := &statusOnly{header: http.Header{}}
	s.mux.ServeHTTP(probe, r)
	if allowed := probe.header.Get("Allow"); allowed != "" {
		w.Header().Set("Allow", allowed)
		refuse(w, http.StatusMethodNotAllowed, "there is no such operation; possible are "+allowed)
		return
	}
	refuse(w, http.StatusNotFound, nothingThere)
}

const nothingThere = "there is nothing at this path; /v1/openapi.json says what there is"

// statusOnly is a response of which nothing is kept but its header.
type statusOnly struct{ header http.Header }

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) Write(p []byte) (int, error) { return len(p), nil }
func (s *statusOnly) WriteHeader(int)             {}

// guard answers a request whose handler panicked. What was meant for this is logged, and
// not sent.
func (s *Server) guard(w http.ResponseWriter, r *http.Request) {
	fault := recover()
	if fault == nil {
		return
	}
	if err, is := fault.(error); is && errors.Is(err, http.ErrAbortHandler) {
		panic(fault)
	}
	s.Logger.Error("a request met an internal error", "method", r.Method, "path", r.URL.Path, "error", fmt.Sprint(fault))
	refuse(w, http.StatusInternalServerError, "internal error; the log of the server says more")
}

// refuse writes a problem, which says nothing more than it must.
func refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	text, err := problem(status, detail)
	if err == nil {
		_, _ = w.Write(text)
	}
}

// registerDocument has the API say what it is.
func (s *Server) registerDocument() {
	type document struct {
		ContentType string `header:"Content-Type"`
		Body        []byte
	}
	register(s, Operation{
		ID: "get-openapi", Method: http.MethodGet, Path: "/v1/openapi.json", Role: identity.Viewer, Kind: anyKind, Summary: "This description, in OpenAPI 3.1",
	}, func(context.Context, *struct{}) (*document, error) {
		text, err := s.Document()
		return &document{"application/vnd.oai.openapi+json;version=3.1", text}, err
	})
}

// Document is the description of the API in OpenAPI 3.1.
func (s *Server) Document() ([]byte, error) { return s.api.OpenAPI().MarshalJSON() }
