package server

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/query"
)

// listInput is which part of a list is asked for.
type listInput struct {
	Cursor      string `query:"cursor" maxLength:"2048" doc:"What next said of the part before; missing is the first part."`
	Limit       int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Rows, at most."`
	IfNoneMatch string `header:"If-None-Match" maxLength:"4096" doc:"ETags of former answers: 304 where one still holds."`
}

// part is a part of a list.
type part[T any] struct {
	Status int
	ETag   string `header:"ETag"`
	Link   string `header:"Link"`
	Cache  string `header:"Cache-Control"`
	Body   struct {
		Event int64  `json:"event" doc:"The newest event that it follows from."`
		Items []T    `json:"items"`
		Next  string `json:"next,omitempty" doc:"The cursor of the next part; missing where there is none."`
	}
}

// registerLists adds what lists what follows from the log.
func (s *Server) registerLists() {
	all := &query.Environments{Environments: s.environments, Log: s.Log}
	list(s, "environments", "Environments that are not deleted, by name", func(ctx context.Context) ([]query.EnvironmentRow, int64, error) {
		err := s.environments.Follow(ctx, 0)
		return all.List(""), s.environments.Head(), err
	}, func(e query.EnvironmentRow) string { return e.Name })

	known := sync.OnceValue(func() *query.Pipelines { return query.NewPipelines(s.Log, s.Now) })
	list(s, "pipelines", "Pipelines whose revisions are released and that are not deleted, by name", func(ctx context.Context) ([]query.PipelineRow, int64, error) {
		err := known().Follow(ctx, 0)
		rows, _ := known().List()
		return rows, known().Head(), err
	}, func(p query.PipelineRow) string { return p.Name })
}

// list adds a list, sorted by a key, of which parts are read.
func list[T any](s *Server, kind, summary string, read func(context.Context) (rows []T, event int64, err error), key func(T) string) {
	path := "/v1/" + kind
	register(s, Operation{
		ID: "list-" + kind, Method: http.MethodGet, Path: path, Role: identity.Viewer, tags: []string{kind}, Summary: summary,
		Description: "In parts: next, and the header Link, lead to the part after this one. What is added or deleted meanwhile moves nothing else from one part to another.",
		answers:     map[string]*huma.Response{"304": {Description: "It is as If-None-Match says"}},
	}, func(ctx context.Context, in *listInput) (*part[T], error) {
		after, err := behind(kind, in.Cursor)
		if err != nil {
			return nil, err
		}
		head, err := s.head(ctx)
		if err != nil {
			return nil, err
		}
		out := &part[T]{Status: http.StatusOK, Cache: "private, no-cache"}
		tag := func(event int64) string {
			return `"` + hashed(s.Log.ID(), fmt.Sprint(event), kind, in.Cursor, fmt.Sprint(in.Limit), s.Version) + `"`
		}
		if out.ETag = tag(head); matches(in.IfNoneMatch, out.ETag) {
			out.Status = http.StatusNotModified
			return out, nil
		}
		rows, event, err := read(ctx)
		if err != nil {
			return nil, err
		}
		rows, more := query.Part(rows, key, after, in.Limit)
		out.ETag, out.Body.Event, out.Body.Items = tag(event), event, rows
		if more {
			out.Body.Next = cursor(kind, key(rows[len(rows)-1]))
			out.Link = fmt.Sprintf(`<%s?cursor=%s&limit=%d>; rel="next"`, path, url.QueryEscape(out.Body.Next), in.Limit)
		}
		return out, nil
	})
}

// cursor is where a part ends.
func cursor(kind, last string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + ":" + last))
}

// behind is the last row before the part that a cursor leads to.
func behind(kind, cursor string) (last string, err error) {
	if cursor == "" {
		return "", nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	last, of := strings.CutPrefix(string(text), kind+":")
	if err != nil || !of || last == "" {
		return "", huma.Error422UnprocessableEntity("the cursor is none of this list: take what next said, or none")
	}
	return last, nil
}

// matches reports whether If-None-Match names an ETag.
func matches(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == tag {
			return true
		}
	}
	return false
}
