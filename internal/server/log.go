package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/scope"
)

// aboutLog are the tags of operations on the log.
var aboutLog = []string{"log"}

// LogInfo is which log it is, and how long.
type LogInfo struct {
	ID   string `json:"id" doc:"Identifies the log; it never changes."`
	Head int64  `json:"head" doc:"Number of the newest event; 0 where there is none."`
}

// registerLog adds what reads the log.
func (s *Server) registerLog() {
	type info struct{ Body LogInfo }
	register(s, Operation{
		ID: "get-log", Method: http.MethodGet, Path: "/v1/log", Role: identity.Viewer, Kind: anyKind, Summary: "Which log it is, and its newest event", tags: aboutLog,
	}, func(ctx context.Context, _ *struct{}) (*info, error) {
		head, err := s.head(ctx)
		return &info{LogInfo{ID: s.Log.ID(), Head: head}}, err
	})
	s.registerEvents()
	s.registerLatest()
	s.registerAlive()
	s.registerVerify()
}

// head is the number of the newest event.
func (s *Server) head(ctx context.Context) (int64, error) {
	newest, err := s.newest(ctx)
	return newest.Seq, err
}

// newest is the newest event; the zero one is none.
func (s *Server) newest(ctx context.Context) (newest deploylog.Event, err error) {
	for e, err := range s.Log.Read(ctx, deploylog.Filter{Last: 1}) {
		if err != nil {
			return newest, err
		}
		newest = e
	}
	return newest, nil
}

// LatestEvent is the last event of an outcome.
type LatestEvent struct {
	Event *deploylog.Event `json:"event" doc:"Missing where there is none."`
}

// StartedEvents are those of what has not ended.
type StartedEvents struct {
	Events []deploylog.Event `json:"events"`
}

func (s *Server) registerLatest() {
	type latestInput struct {
		Conditional
		Target  string `query:"target" required:"true" doc:"Such as stage/gateway/prod."`
		Outcome string `query:"outcome" enum:"succeeded,failed" required:"true"`
	}
	register(s, Operation{
		ID: "get-latest", Method: http.MethodGet, Path: "/v1/log/latest", Role: identity.Viewer, Kind: anyKind, tags: aboutLog, answers: unchanged(),
		Summary: "What of a target succeeded or failed last, by the order in which deployments were begun",
	}, func(ctx context.Context, in *latestInput) (*answer[LatestEvent], error) {
		if err := checkTarget(ctx, in.Target); err != nil {
			return nil, err
		}
		return derived(ctx, s, in.Conditional, []string{"latest", in.Target, in.Outcome}, func(newest deploylog.Event) (found LatestEvent, event int64, err error) {
			e, ok, err := s.Log.Latest(ctx, deploylog.Target(in.Target), deploylog.Outcome(in.Outcome))
			if ok {
				found.Event = &e
			}
			return found, newest.Seq, err
		})
	})
	type progressInput struct {
		Conditional
		Target string `query:"target" required:"true" doc:"Such as stage/gateway/prod."`
	}
	register(s, Operation{
		ID: "list-in-progress", Method: http.MethodGet, Path: "/v1/log/in-progress", Role: identity.Viewer, Kind: anyKind, tags: aboutLog, answers: unchanged(),
		Summary: "What of a target was started and has neither succeeded nor failed",
	}, func(ctx context.Context, in *progressInput) (*answer[StartedEvents], error) {
		if err := checkTarget(ctx, in.Target); err != nil {
			return nil, err
		}
		return derived(ctx, s, in.Conditional, []string{"in-progress", in.Target}, func(newest deploylog.Event) (StartedEvents, int64, error) {
			events, err := s.Log.InProgress(ctx, deploylog.Target(in.Target))
			return StartedEvents{append([]deploylog.Event{}, events...)}, newest.Seq, err
		})
	})
}

// Heartbeat is one of a process that is at work, and when it was.
type Heartbeat struct {
	deploylog.Heartbeat
	Last time.Time `json:"last"`
}

// registerAlive adds what says who is at work.
func (s *Server) registerAlive() {
	type heartbeats struct {
		Body struct {
			Heartbeats []Heartbeat `json:"heartbeats"`
		}
	}
	register(s, Operation{
		ID: "list-heartbeats", Method: http.MethodGet, Path: "/v1/log/heartbeats", Role: identity.Viewer, Kind: anyKind, tags: aboutLog,
		Summary: "Which processes are at work, and on what",
	}, func(ctx context.Context, _ *struct{}) (*heartbeats, error) {
		var out heartbeats
		out.Body.Heartbeats = []Heartbeat{}
		log, keeps := s.Log.(deploylog.HeartbeatLog)
		if !keeps {
			return &out, nil
		}
		all, err := log.Heartbeats()
		for _, h := range all {
			if h, ok := scope.Heartbeat(identity.Of(ctx), h); ok {
				out.Body.Heartbeats = append(out.Body.Heartbeats, Heartbeat{h, h.Last})
			}
		}
		return &out, err
	})
	type lockInput struct {
		Name string `query:"name" required:"true" minLength:"1" maxLength:"1024"`
	}
	type lock struct {
		Body struct {
			Locked bool `json:"locked"`
		}
	}
	register(s, Operation{
		ID: "get-locked", Method: http.MethodGet, Path: "/v1/log/locked", Role: identity.Viewer, tags: aboutLog,
		Summary: "Whether a process has a lock of the log",
	}, func(_ context.Context, in *lockInput) (*lock, error) {
		var out lock
		locked, err := s.Log.Locked(in.Name)
		out.Body.Locked = locked
		return &out, err
	})
}

// verifyTimeout is how long reading a whole log may take.
const verifyTimeout = 10 * time.Minute

func (s *Server) registerVerify() {
	type input struct {
		Anchor []string `query:"anchor,explode" maxItems:"100" doc:"Heads that were noted elsewhere; it fails where the log never stood at one of them."`
	}
	type verified struct {
		Body struct {
			Events int64  `json:"events"`
			Head   string `json:"head"`
		}
	}
	register(s, Operation{
		ID: "verify-log", Method: http.MethodGet, Path: "/v1/log/verify", Role: identity.Viewer, tags: aboutLog, timeout: verifyTimeout,
		Summary: "Read the whole log, and make sure that it is what was appended; one at a time",
	}, func(ctx context.Context, in *input) (*verified, error) {
		known := make([]deploylog.Head, len(in.Anchor))
		for i, text := range in.Anchor {
			var err error
			if known[i], err = deploylog.ParseHead(text); err != nil {
				return nil, because(huma.Error422UnprocessableEntity(err.Error()), err)
			}
		}
		select {
		case s.verifying <- struct{}{}:
			defer func() { <-s.verifying }()
		default:
			return nil, huma.ErrorWithHeaders(huma.NewError(http.StatusTooManyRequests, "the log is being verified for another caller, and one verification runs at a time: ask again later"), http.Header{"Retry-After": {"10"}})
		}
		v, err := s.Log.Verify(ctx, known...)
		if err != nil && ctx.Err() == nil {
			return nil, because(huma.Error409Conflict(err.Error()), err)
		}
		var out verified
		out.Body.Events, out.Body.Head = v.Events, v.Head
		return &out, err
	})
}
