package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"syscall"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/objects"
)

// minFree is how much of the disk objects leave free, in bytes: the log is on the same one, and any caller that
// may send them must not keep others from recording.
const minFree = 256 << 20

var aboutObjects = []string{"objects"}

// registerObjects adds what keeps and returns what revisions carry.
func (s *Server) registerObjects() {
	type digest struct {
		Digest string `path:"digest" pattern:"^[0-9a-f]{64}$" doc:"SHA-256 of the content, in hexadecimal."`
	}
	register(s, Operation{
		ID: "get-object", Method: http.MethodGet, Path: "/v1/objects/{digest}", Role: identity.Viewer, tags: aboutObjects,
		Summary: "A text that a revision carries",
		answers: map[string]*huma.Response{"200": {Description: "The text", Content: map[string]*huma.MediaType{
			"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
		}}},
	}, func(_ context.Context, in *digest) (*huma.StreamResponse, error) {
		content, size, err := s.Objects.Open(in.Digest)
		if errors.Is(err, objects.ErrMissing) {
			return nil, huma.Error404NotFound("there is no such object")
		}
		if err != nil {
			return nil, err
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) { // it need not fit into the memory
			defer content.Close() //nolint:errcheck // it is read only
			ctx.SetHeader("Content-Type", "application/octet-stream")
			ctx.SetHeader("Content-Length", strconv.FormatInt(size, 10))
			_, _ = io.Copy(s.progressing(ctx), content) // who asked may have gone, and makes sure of the digest
		}}, nil
	})
	type keep struct {
		Digest  string `path:"digest" pattern:"^[0-9a-f]{64}$" doc:"SHA-256 of the content, in hexadecimal."`
		RawBody []byte `contentType:"application/octet-stream"`
	}
	register(s, Operation{
		ID: "put-object", Method: http.MethodPut, Path: "/v1/objects/{digest}", Role: identity.Operator, Kind: anyKind, tags: aboutObjects, maxBody: objects.MaxSize + 1, // which is too large
		Summary: "Keep a text that a revision is to carry",
	}, func(_ context.Context, in *keep) (*struct{}, error) {
		if objects.Hash(in.RawBody) != in.Digest {
			return nil, huma.Error422UnprocessableEntity("the content does not have the digest of the path")
		}
		return nil, s.keep(in.Digest, in.RawBody)
	})
	type salt struct {
		Body struct {
			Salt string `json:"salt" doc:"In hexadecimal."`
		}
	}
	register(s, Operation{
		ID: "make-salt", Method: http.MethodPost, Path: "/v1/salt", Role: identity.Operator, tags: aboutObjects,
		Summary:     "The key of the hashes that revisions carry in place of secrets, which is made where there is none",
		Description: "With it guesses of a weak secret of any revision can be tried, so it is for those who may operate everything.",
	}, func(context.Context, *struct{}) (*salt, error) {
		var out salt
		key, err := s.Objects.MakeSalt()
		out.Body.Salt = hex.EncodeToString(key)
		return &out, err
	})
}

// keep keeps an object that was sent, unless the disk has no room for it.
func (s *Server) keep(digest string, content []byte) error {
	if free, known := s.Objects.Free(); known && free < minFree+uint64(len(content)) && s.Objects.Check(digest) != nil {
		s.Logger.Error("an object was not kept", "object", digest, "bytes", len(content), "free", free, "left free", minFree)
		return noRoom("object")
	}
	err := s.Objects.KeepAll(content)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		s.Logger.Error("an object was not kept", "object", digest, "error", err)
		return noRoom("object")
	}
	return err
}

// noRoom is why something that is sent is not kept.
func noRoom(what string) error {
	return huma.NewError(http.StatusInsufficientStorage, fmt.Sprintf("the disk of the server has no room for the %s: an admin of it has to make room, such as with deployster gc", what))
}
