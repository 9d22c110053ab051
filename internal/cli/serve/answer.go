package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/deployster-go/deployster/control/managed"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/approval"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/cli/build"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/pages"
	"github.com/deployster-go/deployster/internal/server"
)

// The bounds of requests. An answer may take as long as a stream of events is read.
const (
	headerTime  = 10 * time.Second
	idleTime    = 2 * time.Minute
	mostHeaders = 64 << 10
	bodyTime    = time.Minute     // for the body of a request, whoever sends it
	answerTime  = 2 * time.Minute // for who takes an answer; a stream sets its own for each part
	closeTime   = 5 * time.Second // for answers that are under way when the server ends
	lookTime    = 5 * time.Second // for looking at the log to say whether it is ready
)

// answering is the part of a server that answers requests.
type answering struct {
	*http.Server
	end context.CancelFunc // of what would go on without end
}

// answer begins to answer requests. failed receives why it cannot any more.
func (s *process) answer(listeners []net.Listener, drain <-chan struct{}) (_ answering, failed <-chan error, _ error) {
	errs := make(chan error, len(listeners)+1)
	routes, err := s.routes(drain, func(err error) {
		select {
		case errs <- fmt.Errorf("nothing can be recorded any more before the next start: %w", err):
		default: // it is known
		}
	})
	if err != nil {
		return answering{}, nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	h := &http.Server{
		Handler: s.metrics.Measure(bounded(http.NewCrossOriginProtection().Handler(routes))), BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext:       identity.ConnContext,
		ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: mostHeaders, ErrorLog: slog.NewLogLogger(s.logger.Handler(), slog.LevelWarn),
	}
	for _, l := range listeners {
		s.logger.Info("listening", "address", l.Addr().String(), "network", l.Addr().Network())
		go func() {
			if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				errs <- fmt.Errorf("listening on %s: %w", l.Addr(), err)
			}
		}()
	}
	return answering{h, end}, errs, nil
}

// bounded gives who sends a body, or takes an answer, so long and no longer: otherwise whoever
// can connect could hold connections without end. A request without a body is not bounded in
// what is read, for that would end a stream.
func bounded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, now := http.NewResponseController(w), time.Now()
		if r.ContentLength != 0 {
			_ = c.SetReadDeadline(now.Add(bodyTime)) // what cannot be bounded is no connection
		}
		_ = c.SetWriteDeadline(now.Add(answerTime))
		h.ServeHTTP(w, r)
	})
}

// close ends what goes on without end, and waits a while for the rest.
func (a answering) close() error {
	a.end()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := a.Shutdown(ctx); err != nil {
		return a.Close()
	}
	return nil
}

// routes are what it answers. failed is told where it cannot record any more.
func (s *process) routes(drain <-chan struct{}, failed func(error)) (http.Handler, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, map[string]any{"status": "alive"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.ready(r.Context(), drain); err != nil {
			write(w, http.StatusServiceUnavailable, map[string]any{"status": "not ready", "reason": err.Error()})
			return
		}
		write(w, http.StatusOK, map[string]any{"status": "ready"})
	})
	kept, err := s.ArtifactsDir()
	if err != nil {
		return nil, err
	}
	sessions := pages.NewSessions(s.Now, s.public != nil && s.public.Scheme == "https", s.authenticate.Identify)
	api := server.New(server.Options{
		Log: s.log, Objects: s.objects, Now: s.Now, NewID: s.NewID, Version: s.Version, Logger: s.logger, Identify: sessions.Identify,
		Managed: s.managed, Hosts: s.workers.Hosts, Things: s.workers.Tasks.Things, Runs: s.runs, Failed: failed, Commands: &s.commands, Bounded: s.workers.Bounded(),
		Workspace: s.Workspace, Places: places(kept), Artifacts: artifacts.In(kept), Workers: build.NewFleet(s.work, s.workers.EnginePool),
	})
	mux.Handle("/v1/", api)
	mux.Handle("GET /metrics", api.AllReaders(s.metrics.Handler()))
	signed := approval.New(approval.Of(s.log, s.Now), s.Now) // whose signature says who asks
	signed.Log, signed.Base, signed.Failed = s.logger, s.public, failed
	mux.Handle(approval.Pattern, signed)
	shown, err := pages.New(pages.Options{
		Managed: s.managed, Log: s.log, Hosts: s.workers.Hosts, Workers: s.builders, Objects: s.objects, Workspace: s.Workspace, Sessions: sessions, API: api, Now: s.Now, Version: s.Version, Logger: s.logger,
	})
	mux.Handle("/", shown)
	return mux, err
}

// places are the directories of this machine besides the workspace that errors may name: where the log is with all
// beside it, and those of the user.
func places(artifacts string) []string {
	dirs := []string{filepath.Dir(artifacts)}
	for _, of := range []func() (string, error){os.UserHomeDir, os.UserCacheDir, os.UserConfigDir} {
		if dir, err := of(); err == nil {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range dirs {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dirs = append(dirs, real)
		}
	}
	return dirs
}

// managed lists what runs made, as this machine knows what is declared.
func (s *process) managed(ctx context.Context, q managed.Question) ([]*managed.Thing, error) {
	machine := engines.Machine()
	q.Here, q.Identify = runs.Owner{Workspace: s.Workspace, Machine: machine, Shared: deploylog.Shared(s.log)}, work.Recorded(s.log, machine)
	return managed.List(ctx, s.log, q)
}

// ready says why no requests should come here; nil when they may.
func (s *process) ready(ctx context.Context, drain <-chan struct{}) error {
	select {
	case <-drain:
		return errors.New("it stops")
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	for _, err := range s.log.Read(ctx, deploylog.Filter{Last: 1}) {
		if err != nil {
			s.logger.Warn("the log cannot be read", "error", err)
			return errors.New("the log cannot be read")
		}
	}
	return nil
}

func write(w http.ResponseWriter, code int, document map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(document) // the client may have gone
}
