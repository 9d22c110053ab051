package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"syscall"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/places"
	"github.com/deployster-go/deployster/internal/proposal"
)

// The bounds of what is received. The log is on the same disk, which must not be full.
var receivedLimits = artifacts.Limits{Files: 100_000, Bytes: 4 << 30, MinFree: 1 << 30}

// maxReceiving is how many artifacts are received at once.
const maxReceiving = 4

var aboutArtifacts = []string{"artifacts"}

// Artifact is one that is kept, or its digest alone.
type Artifact struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size,omitempty" doc:"Bytes of its files together."`
	Files  int    `json:"files,omitempty" doc:"Files, links and directories."`
}

// upload is an artifact that is sent. Its layer may be large: it is stored while it comes.
type upload struct {
	Digest string `path:"digest" pattern:"^sha256:[0-9a-f]{64}$" doc:"Of the artifact."`
	Layer  string `query:"layer" required:"true" pattern:"^sha256:[0-9a-f]{64}$" doc:"Digest of the body, which is the layer of the artifact: a tar that is not compressed."`

	body io.Reader
	size int64
}

// Resolve takes the body as it comes.
func (u *upload) Resolve(ctx huma.Context) []error {
	r, _ := humago.Unwrap(ctx)
	u.body, u.size = r.Body, r.ContentLength
	return nil
}

// registerArtifacts adds what keeps the sources of build groups.
func (s *Server) registerArtifacts() {
	type digest struct {
		Digest string `path:"digest" pattern:"^sha256:[0-9a-f]{64}$"`
	}
	type kept struct{ Body Artifact }
	register(s, Operation{
		ID: "get-artifact", Method: http.MethodGet, Path: "/v1/artifacts/{digest}", Role: identity.Operator, Kind: proposal.Builds, tags: aboutArtifacts,
		Summary: "Whether an artifact is here, which then stays for a day even if no build group needs it",
	}, func(ctx context.Context, in *digest) (*kept, error) {
		is, err := s.Artifacts.Use(ctx, in.Digest)
		switch {
		case err != nil:
			return nil, err
		case !is:
			return nil, huma.Error404NotFound("there is no such artifact")
		}
		return &kept{Artifact{Digest: in.Digest}}, nil
	})
	receiving := places.New(maxReceiving)
	register(s, Operation{
		ID: "put-artifact", Method: http.MethodPut, Path: "/v1/artifacts/{digest}", Role: identity.Operator, Kind: proposal.Builds, tags: aboutArtifacts, streams: true,
		Summary: "Keep an artifact that a build group is to carry, such as its sources",
		body: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
		}},
	}, func(ctx context.Context, in *upload) (*kept, error) {
		if in.size < 0 {
			return nil, huma.NewError(http.StatusLengthRequired, "how long the layer is has to be said before: send Content-Length")
		}
		free, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		leave, ok := receiving.Take(free, identity.Of(ctx).Name)
		if !ok {
			return nil, huma.NewError(http.StatusTooManyRequests, "as many artifacts are sent already as are received at once, by others or by you: send it again later")
		}
		defer leave()
		a, err := s.Artifacts.Receive(ctx, in.Digest, artifacts.Layer{Digest: in.Layer, Size: in.size}, in.body, receivedLimits)
		var refused *artifacts.RefusedError
		switch {
		case errors.As(err, &refused), errors.Is(err, artifacts.ErrAltered):
			return nil, because(huma.Error422UnprocessableEntity(err.Error()), err)
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
			s.Logger.Error("an artifact was not received", "artifact", in.Digest, "error", err)
			return nil, noRoom("artifact")
		case err != nil && ctx.Err() == nil && interrupted(err):
			return nil, huma.NewError(http.StatusBadRequest, "the layer broke off, or came too slowly: send it again")
		}
		return &kept{Artifact(a)}, err
	})
}

// interrupted reports whether what is sent does not come any more.
func interrupted(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &timeout) && timeout.Timeout()
}
