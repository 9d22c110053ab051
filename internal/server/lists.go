package server

import (
	"context"
	"encoding"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/scope"
)

// ListInput is which part of a list is asked for.
type ListInput struct {
	Conditional
	Cursor string `query:"cursor" maxLength:"2048" doc:"What next said of the part before; missing is the first part."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Rows, at most."`
}

// part is a part of a list.
type part[T any] struct {
	Status int
	ETag   string `header:"ETag"`
	Link   string `header:"Link"`
	Cache  string `header:"Cache-Control"`
	Body   rows[T]
}

// rows are those of a part.
type rows[T any] struct {
	Event int64  `json:"event" doc:"The newest event that it follows from."`
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty" doc:"The cursor of the next part; missing where there is none."`
}

// registerLists adds what lists what follows from the log.
func (s *Server) registerLists() {
	register(s, listing("environments", "", "Environments that are not deleted, by name"), func(ctx context.Context, in *ListInput) (*part[query.EnvironmentRow], error) {
		return list[query.EnvironmentRow]{path: "/v1/environments", scope: scope.Named(ctx), key: func(e query.EnvironmentRow) string { return e.Name }, read: func(string, deploylog.Event) ([]query.EnvironmentRow, int64, error) {
			err := s.environments.Follow(ctx, 0)
			return scope.Rows(ctx, identity.Environments, s.environmentsNow().List(""), func(e query.EnvironmentRow) string { return e.Name }), s.environments.Head(), err
		}}.part(ctx, s, in)
	})
	register(s, listing("pipelines", "", "Pipelines whose revisions are released and that are not deleted, by name"), func(ctx context.Context, in *ListInput) (*part[query.PipelineRow], error) {
		return list[query.PipelineRow]{path: "/v1/pipelines", scope: scope.Named(ctx), key: func(p query.PipelineRow) string { return p.Name }, read: func(string, deploylog.Event) ([]query.PipelineRow, int64, error) {
			err := s.pipelines.Follow(ctx, 0)
			rows, _ := s.pipelines.List()
			return scope.Rows(ctx, identity.Pipelines, rows, func(p query.PipelineRow) string { return p.Name }), s.pipelines.Head(), err
		}}.part(ctx, s, in)
	})
	s.registerHosts()
	s.registerGroups()
	s.registerJobs()
}

// environmentsNow answers questions about the environments of the log.
func (s *Server) environmentsNow() *query.Environments {
	return &query.Environments{Environments: s.environments, Log: s.Log}
}

func (s *Server) registerHosts() {
	type input struct {
		NameInput
		ListInput
	}
	register(s, listing("environments", "hosts", "Hosts of an environment that have a task or should have one, by name"), func(ctx context.Context, in *input) (*part[report.HostRow], error) {
		return list[report.HostRow]{path: "/v1/environments/" + url.PathEscape(in.Name) + "/hosts", key: func(h report.HostRow) string { return h.Host }, read: func(string, deploylog.Event) ([]report.HostRow, int64, error) {
			if err := s.environments.Follow(ctx, 0); err != nil {
				return nil, 0, err
			}
			all, err := s.environmentsNow().Status(in.Name)
			if err != nil {
				return nil, 0, err
			}
			return all[0].Hosts, s.environments.Head(), nil
		}}.part(ctx, s, &in.ListInput)
	})
}

func (s *Server) registerGroups() {
	type input struct {
		ListInput
		State string `query:"state" maxLength:"64" doc:"Only groups in this state, such as Dispatching or Complete."`
	}
	register(s, listing("builds", "", "Build groups, by id"), func(ctx context.Context, in *input) (*part[build.Summary], error) {
		state, err := stateOf[transition.Group](in.State)
		if err != nil {
			return nil, err
		}
		return list[build.Summary]{path: "/v1/builds", selects: ofState(in.State), key: func(g build.Summary) string { return g.ID }, read: func(_ string, newest deploylog.Event) ([]build.Summary, int64, error) {
			err := s.builds.Follow(ctx, 0)
			return s.buildsAt(newest).ByID(state), s.builds.Head(), err
		}}.part(ctx, s, &in.ListInput)
	})
}

func (s *Server) registerJobs() {
	type input struct {
		NameInput
		ListInput
		State string `query:"state" maxLength:"64" doc:"Only jobs in this state, such as Built or JobFailed."`
	}
	register(s, listing("builds", "jobs", "Jobs of a build group, by number"), func(ctx context.Context, in *input) (*part[build.JobReport], error) {
		state, err := stateOf[transition.Job](in.State)
		if err != nil {
			return nil, err
		}
		return list[build.JobReport]{path: "/v1/builds/" + url.PathEscape(in.Name) + "/jobs", selects: ofState(in.State), key: keyOfJob, read: func(after string, newest deploylog.Event) ([]build.JobReport, int64, error) {
			if err := s.builds.Follow(ctx, 0); err != nil {
				return nil, 0, err
			}
			number, _ := strconv.Atoi(after) // what is no number is before all of them
			rows, err := s.buildsAt(newest).JobsAfter(in.Name, number, in.Limit+1, state)
			return rows, s.builds.Head(), err
		}}.part(ctx, s, &in.ListInput)
	})
}

// keyOfJob sorts jobs by their numbers.
func keyOfJob(j build.JobReport) string { return fmt.Sprintf("%010d", j.Number) }

// stateOf is the state of a name; "" is the zero one, which is any.
func stateOf[S any, P interface {
	*S
	encoding.TextUnmarshaler
}](name string) (state S, err error) {
	if err := P(&state).UnmarshalText([]byte(name)); err != nil {
		return state, because(huma.Error422UnprocessableEntity(err.Error()), err)
	}
	return state, nil
}

// ofState is what the address of a list of what is in a state says of that.
func ofState(name string) url.Values {
	if name == "" {
		return nil
	}
	return url.Values{"state": {name}}
}

// listing is an operation that lists all of a kind, or what one of it has.
func listing(kind, of, summary string) Operation {
	op := Operation{
		ID: "list-" + kind, Method: http.MethodGet, Path: "/v1/" + kind, Role: identity.Viewer, tags: []string{kind}, Summary: summary,
		Description: "In parts: next, and the header Link, lead to the part after this one. What is added or deleted meanwhile moves nothing else from one part to another.",
		answers:     unchanged(),
	}
	switch {
	case of != "":
		op.Kind = scope.Kind(kind)
	case scope.Kind(kind) != "":
		op.Kind = anyKind
	}
	if of != "" {
		op.ID, op.Path = "list-"+strings.TrimSuffix(kind, "s")+"-"+of, op.Path+"/{name}/"+of
	}
	return op
}

// list is one of which parts are read.
type list[T any] struct {
	path    string
	selects url.Values // which of all that is there it has
	scope   string     // which part of it a caller reads who may not read everything
	timed   bool       // it does not follow from the log alone
	key     func(T) string

	// read is the rows, sorted by their keys. Those up to the key after may be missing, and those
	// that are beyond the limit and one more.
	read func(after string, newest deploylog.Event) (rows []T, event int64, err error)
}

// part is the part of a list that is asked for.
func (l list[T]) part(ctx context.Context, s *Server, in *ListInput) (*part[T], error) {
	of := l.path + "?" + l.selects.Encode()
	after, err := behind(of, in.Cursor)
	if err != nil {
		return nil, err
	}
	read := func(newest deploylog.Event) (body rows[T], event int64, err error) {
		all, event, err := l.read(after, newest)
		if err != nil {
			return body, 0, err
		}
		some, more := query.Part(all, l.key, after, in.Limit)
		body.Event, body.Items = event, append([]T{}, some...)
		if more {
			body.Next = cursor(of, l.key(some[len(some)-1]))
		}
		return body, event, nil
	}
	var found *answer[rows[T]]
	if l.timed {
		found, err = stated(ctx, s, in.Conditional, read)
	} else {
		found, err = derived(ctx, s, in.Conditional, []string{of, in.Cursor, fmt.Sprint(in.Limit), l.scope}, read)
	}
	if err != nil {
		return nil, err
	}
	out := &part[T]{Status: found.Status, ETag: found.ETag, Cache: found.Cache, Body: found.Body}
	if found.Body.Next != "" {
		next := url.Values{"cursor": {found.Body.Next}, "limit": {fmt.Sprint(in.Limit)}}
		maps.Copy(next, l.selects)
		out.Link = fmt.Sprintf(`<%s?%s>; rel="next"`, l.path, next.Encode())
	}
	return out, nil
}

// cursor is where a part of a list ends.
func cursor(of, last string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(hashed(of)[:cursorOf] + ":" + last))
}

// cursorOf is how much of the hash of a list its cursors have.
const cursorOf = 8

// behind is the last row before the part that a cursor leads to.
func behind(of, cursor string) (last string, err error) {
	if cursor == "" {
		return "", nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	last, is := strings.CutPrefix(string(text), hashed(of)[:cursorOf]+":")
	if err != nil || !is || last == "" {
		return "", huma.Error422UnprocessableEntity("the cursor is none of this list: take what next said, or none")
	}
	return last, nil
}
