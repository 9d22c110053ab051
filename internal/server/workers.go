package server

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/proposal"
	"github.com/deployster-go/deployster/inventory"
)

// Workers are where a server has the jobs of build groups done.
type Workers interface {
	Workers() ([]inventory.Host, error)
	Identity() string
	Look(ctx context.Context, name string) (platforms []string, err error)
	Image(ctx context.Context, worker, ref string, policy engine.PullPolicy) (engine.Image, error)
}

// noWorkers are those of a server that has none.
type noWorkers struct{}

var errNoWorkers = errors.New("the server has no workers")

func (noWorkers) Workers() ([]inventory.Host, error)             { return nil, errNoWorkers }
func (noWorkers) Identity() string                               { return "" }
func (noWorkers) Look(context.Context, string) ([]string, error) { return nil, errNoWorkers }
func (noWorkers) Image(context.Context, string, string, engine.PullPolicy) (i engine.Image, _ error) {
	return i, errNoWorkers
}

// Fleet is the workers of a server as its clients see them.
type Fleet struct {
	Identity string `json:"identity" doc:"What their inventory is known as; empty where there is none."`
	Platform string `json:"platform" doc:"That of the server."`
	Hosts    []Host `json:"hosts"`
}

// Image is an image with the content that it has on a worker, or why that is not known.
type Image struct {
	ID      string `json:"id,omitempty" doc:"Of its content in the engine."`
	Digest  string `json:"digest,omitempty" doc:"Of its content in a registry, if it was ever in one."`
	OS      string `json:"os,omitempty"`
	Arch    string `json:"arch,omitempty"`
	Problem string `json:"problem,omitempty" doc:"Why it cannot be had there."`
}

// The bounds of asking engines for images, which may get them from registries.
const (
	imageTime  = 10 * time.Minute
	maxImaging = 8 // at once
)

var aboutWorkers = []string{"workers"}

// hostOf is a host as clients see it.
func hostOf(h inventory.Host) Host {
	attributes := map[string][]string{}
	maps.Copy(attributes, h.Attributes)
	return Host{h.Name, append([]string{}, h.Platforms...), h.Slots, attributes}
}

// worker fails unless there is a worker of a name.
func (s *Server) worker(name string) error {
	all, err := s.Workers.Workers()
	switch {
	case err != nil:
		return because(huma.Error409Conflict(err.Error()), err)
	case !slices.ContainsFunc(all, func(h inventory.Host) bool { return h.Name == name }):
		return huma.Error404NotFound("there is no such worker")
	}
	return nil
}

// registerWorkers adds what says where the jobs of build groups are done, and what images are
// there: a group carries what its jobs get on the workers of the server.
func (s *Server) registerWorkers() {
	type fleet struct{ Body Fleet }
	register(s, Operation{
		ID: "get-workers", Method: http.MethodGet, Path: "/v1/workers", Role: identity.Viewer, tags: aboutWorkers,
		Summary: "Where the jobs of build groups are done, without how the engines are reached",
	}, func(context.Context, *struct{}) (*fleet, error) {
		all, err := s.Workers.Workers()
		if err != nil {
			return nil, because(huma.Error409Conflict(err.Error()), err)
		}
		out := &fleet{Fleet{Identity: s.Workers.Identity(), Platform: "linux/" + runtime.GOARCH, Hosts: []Host{}}}
		for _, h := range all {
			out.Body.Hosts = append(out.Body.Hosts, hostOf(h))
		}
		return out, nil
	})
	type platforms struct {
		Body struct {
			Platforms []string `json:"platforms"`
		}
	}
	type named struct {
		Name string `path:"name" maxLength:"512" doc:"Of a worker."`
	}
	register(s, Operation{
		ID: "look-worker", Method: http.MethodPost, Path: "/v1/workers/{name}/look", Role: identity.Viewer, Kind: proposal.Builds, tags: aboutWorkers,
		Summary: "Ask the engine of a worker for which platforms it builds",
	}, func(ctx context.Context, in *named) (*platforms, error) {
		if err := s.worker(in.Name); err != nil {
			return nil, err
		}
		has, err := s.Workers.Look(ctx, in.Name)
		if err != nil {
			return nil, because(huma.Error409Conflict(err.Error()), err)
		}
		var out platforms
		out.Body.Platforms = append([]string{}, has...)
		return &out, nil
	})
	s.registerImages()
}

// registerImages adds what finds out which content an image has.
func (s *Server) registerImages() {
	type wanted struct {
		Name string `path:"name" maxLength:"512" doc:"Of a worker."`
		Body struct {
			Image string `json:"image" minLength:"1" maxLength:"1000"`
			Pull  string `json:"pull" enum:"missing,always,never"`
		}
	}
	asking := make(chan struct{}, maxImaging)
	schemas := s.api.OpenAPI().Components.Schemas
	register(s, Operation{
		ID: "get-worker-image", Method: http.MethodPost, Path: "/v1/workers/{name}/images", Role: identity.Operator, Kind: proposal.Builds, tags: aboutWorkers, streams: true,
		Summary:     "Which content an image has on a worker, which gets it where it has none",
		Description: "The answer may take as long as it takes to get the image. Until then empty lines are sent.",
		answers: map[string]*huma.Response{"200": {Description: "The image, or why it cannot be had", Content: map[string]*huma.MediaType{
			"application/json": {Schema: schemas.Schema(reflect.TypeFor[Image](), true, "")},
		}}},
	}, func(_ context.Context, in *wanted) (*huma.StreamResponse, error) {
		if err := s.worker(in.Name); err != nil {
			return nil, err
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			ctx.SetHeader("Content-Type", "application/json")
			s.sendImage(ctx, asking, func(asked context.Context) (engine.Image, error) {
				return s.Workers.Image(asked, in.Name, in.Body.Image, engine.PullPolicy(in.Body.Pull))
			})
		}}, nil
	})
}

// sendImage sends an image when it is there, and until then signs of life.
func (s *Server) sendImage(to huma.Context, asking chan struct{}, image func(context.Context) (engine.Image, error)) {
	ctx, cancel := context.WithTimeout(to.Context(), imageTime) // which ends when who asked has gone
	defer cancel()
	out, found := s.progressing(to), make(chan Image, 1)
	go func() {
		var i engine.Image
		err := crash.Do("asking for an image", func() (err error) {
			select {
			case asking <- struct{}{}:
				defer func() { <-asking }()
				i, err = image(ctx)
				return err
			case <-ctx.Done():
				return errors.New("too many others ask for images")
			}
		})
		if err != nil {
			found <- Image{Problem: err.Error()}
			return
		}
		found <- Image{ID: i.ID, Digest: i.Digest, OS: i.OS, Arch: i.Arch}
	}()
	beat := time.NewTicker(s.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case i := <-found:
			if text, err := json.Marshal(i); err == nil {
				_, _ = out.Write(text) // who asked may have gone
			}
			return
		case <-beat.C:
			_, _ = out.Write([]byte("\n"))
			_ = out.control.Flush()
		}
	}
}
