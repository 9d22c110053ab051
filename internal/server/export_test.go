package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
)

// SendBacklog sends who follows what there is already. keeps returns how many bytes are kept for them.
func (s *Server) SendBacklog(ctx context.Context, f deploylog.Filter, who identity.Identity, w http.ResponseWriter) (keeps func() int, sent <-chan error) {
	out := &eventWriter{w: w, control: http.NewResponseController(w), stalled: time.Minute, may: func() bool { return true }, asked: time.Now(), who: who}
	done := make(chan error, 1)
	go func() { done <- s.backlog(ctx, f, out) }()
	return func() int { return out.buffer.Cap() }, done
}

// Undocumented is what of the answer of an operation its document does not say.
func (s *Server) Undocumented(method, path, text string) error {
	api := s.api.OpenAPI()
	if method != "GET" || api.Paths[path] == nil || api.Paths[path].Get == nil {
		return fmt.Errorf("no such operation: %s %s", method, path)
	}
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return err
	}
	schemas := api.Components.Schemas
	for _, schema := range schemas.Map() {
		schema.PrecomputeMessages()
	}
	schema := api.Paths[path].Get.Responses["200"].Content["application/json"].Schema
	schema.PrecomputeMessages()
	found := &huma.ValidateResult{}
	huma.Validate(schemas, schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, value, found)
	if len(found.Errors) > 0 {
		return found.Errors[0]
	}
	return nil
}

// Described is what the document of the API says of all operations.
func (s *Server) Described() (all []*huma.Operation) {
	for _, op := range s.Operations() {
		item := s.api.OpenAPI().Paths[op.Path]
		all = append(all, map[string]*huma.Operation{"GET": item.Get, "PUT": item.Put, "POST": item.Post, "DELETE": item.Delete}[op.Method])
	}
	return all
}

// Resolve returns the schema to which another one refers, or that one itself.
func (s *Server) Resolve(of *huma.Schema) *huma.Schema {
	if of.Ref != "" {
		return s.api.OpenAPI().Components.Schemas.SchemaFromRef(of.Ref)
	}
	return of
}
