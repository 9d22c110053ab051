package server

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/snapshotfile"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/pipeline"
)

// Who reads the log through a server begins with the snapshots that are kept beside it, as who
// reads it there does. None is taken from clients.

const (
	renewAfter      = 4096 // events after which it is looked whether a newer snapshot is due
	maxSending      = 4    // snapshots that are sent at once, each of which is in the memory
	snapshotTimeout = 2 * time.Minute
)

// snapshots are those of a name.
type snapshots struct {
	name   string        // with the version of their form
	turn   chan struct{} // held by who has one made
	looked int64         // event at which a request last had one made if it was due
	follow func(context.Context) error
}

// registerSnapshots adds what sends snapshots.
func (s *Server) registerSnapshots() {
	s.snapshots = map[string]*snapshots{}
	keeps := func(kind string, version int, follow func(context.Context) error) {
		s.snapshots[kind] = &snapshots{name: deploylog.SnapshotName(kind, version), turn: make(chan struct{}, 1), follow: follow}
	}
	// Each is a fold of its own, which is not held: a snapshot is made seldom.
	keeps("pipelines", query.SnapshotVersion, func(ctx context.Context) error { return query.NewPipelines(s.Log, s.Now).Follow(ctx, 0) })
	keeps("schedulers", pipeline.NeededVersion, func(ctx context.Context) error { return pipelines.New(s.Log, s.Now).Follow(ctx, 0) })
	keeps("promotions", promotions.SnapshotVersion, func(ctx context.Context) error { return promotions.NewReader(s.Log, s.Now).Follow(ctx, 0) })
	keeps("environments", environment.SnapshotVersion, func(ctx context.Context) error { return environments.New(s.Log, s.Now).Follow(ctx, 0) })
	keeps("builds", build.SnapshotVersion, func(ctx context.Context) error { return builds.New(s.Log, s.Now).Follow(ctx, 0) })

	type input struct {
		Name    string `path:"name" enum:"pipelines,schedulers,promotions,environments,builds"`
		Program string `query:"program" required:"true" maxLength:"128" doc:"The name of the snapshot with the version of the form that the program which asks reads, such as environments.v1."`
	}
	register(s, Operation{
		ID: "get-snapshot", Method: http.MethodGet, Path: "/v1/log/snapshots/{name}", Role: identity.Viewer, tags: aboutLog, timeout: snapshotTimeout,
		Summary:     "A shorter log, from which follows the same",
		Description: "For --server of Deployster, which begins with it; its form is for no other client. 404 says that there is none, such as of a log that is short, or in that version of the form: then the events are read.",
		answers: map[string]*huma.Response{"200": {Description: "The snapshot", Content: map[string]*huma.MediaType{
			"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
		}}},
	}, func(ctx context.Context, in *input) (*huma.StreamResponse, error) {
		none := huma.Error404NotFound("there is no snapshot")
		log, keeps := s.Log.(deploylog.SnapshotLog)
		if !keeps || in.Program != s.snapshots[in.Name].name {
			return nil, none
		}
		if err := s.renew(ctx, s.snapshots[in.Name]); err != nil {
			return nil, err
		}
		select {
		case s.sending <- struct{}{}:
		case <-ctx.Done():
			return nil, huma.NewError(http.StatusTooManyRequests, "others are sent snapshots; ask again later")
		}
		text, ok := s.encoded(ctx, log, s.snapshots[in.Name].name)
		if !ok {
			<-s.sending
			return nil, none
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			defer func() { <-s.sending }()
			ctx.SetHeader("Content-Type", "application/octet-stream")
			ctx.SetHeader("Content-Length", strconv.Itoa(len(text)))
			_, _ = s.progressing(ctx).Write(text) // who asked may have gone
		}}, nil
	})
}

// encoded is a snapshot as it is sent.
func (s *Server) encoded(ctx context.Context, log deploylog.SnapshotLog, name string) ([]byte, bool) {
	snapshot, ok := log.Snapshot(ctx, name)
	if !ok {
		return nil, false
	}
	text, err := snapshotfile.Encode(name, snapshotfile.Origin{Log: s.Log.ID()}, snapshot)
	return text, err == nil
}

// renew has a snapshot made where one is due, by one at a time.
func (s *Server) renew(ctx context.Context, of *snapshots) error {
	select {
	case of.turn <- struct{}{}:
		defer func() { <-of.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	head, err := s.head(ctx)
	if err != nil || head-of.looked < renewAfter {
		return err
	}
	if err := of.follow(ctx); err != nil {
		return err
	}
	of.looked = head
	return nil
}

// progressing writes an answer to who may be slow: it fails where nothing of a part is taken
// for too long, however long all takes.
func (s *Server) progressing(ctx huma.Context) *progressing {
	_, w := humago.Unwrap(ctx)
	return &progressing{w, http.NewResponseController(w), s.Stalled}
}

type progressing struct {
	w       io.Writer
	control *http.ResponseController
	stalled time.Duration
}

// Write implements io.Writer.
func (p *progressing) Write(text []byte) (written int, err error) {
	for len(text) > 0 && err == nil {
		// A connection that knows no deadlines is one of a test.
		_ = p.control.SetWriteDeadline(time.Now().Add(p.stalled))
		var n int
		n, err = p.w.Write(text[:min(len(text), enough)])
		text, written = text[n:], written+n
	}
	return written, err
}
