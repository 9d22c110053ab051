package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/scope"
)

// NameInput is what is asked for.
type NameInput struct {
	Name string `path:"name" maxLength:"512" doc:"Slashes are written %2F."`
}

// reading is an operation that reads one of a kind.
func reading(kind, one, summary string) Operation {
	return Operation{
		ID: "get-" + one, Method: http.MethodGet, Path: "/v1/" + kind + "/{name}", Role: identity.Viewer, Kind: scope.Kind(kind), tags: []string{kind}, Summary: summary, answers: unchanged(),
	}
}

// environmentStatus is the status of an environment without its hosts, of which there may be
// very many.
type environmentStatus struct {
	report.Report
	Hosts int `json:"hosts" doc:"How many there are; /v1/environments/{name}/hosts lists them."`
}

// registerReads adds what reads one of something.
func (s *Server) registerReads() {
	type named struct {
		NameInput
		Conditional
	}
	register(s, reading("environments", "environment", "The status of an environment"), func(ctx context.Context, in *named) (*answer[environmentStatus], error) {
		read := func(deploylog.Event) (found environmentStatus, event int64, err error) {
			if err := s.environments.Follow(ctx, 0); err != nil {
				return found, 0, err
			}
			all, err := s.environmentsNow().Status(in.Name)
			if err != nil {
				return found, 0, err
			}
			found = environmentStatus{all[0], len(all[0].Hosts)}
			return found, s.environments.Head(), nil
		}
		out, err := derived(ctx, s, in.Conditional, []string{"environment", in.Name}, read)
		if err == nil && out.Body.Asked != nil { // until a time, so that its ETag is never that of an answer without it
			return stated(ctx, s, in.Conditional, read)
		}
		return out, err
	})
	register(s, reading("builds", "build", "The status of a build group, of its id or the newest of its name"), func(ctx context.Context, in *named) (*answer[query.BuildStatus], error) {
		return derived(ctx, s, in.Conditional, []string{"build", in.Name}, func(newest deploylog.Event) (found query.BuildStatus, event int64, err error) {
			if err := s.builds.Follow(ctx, 0); err != nil {
				return found, 0, err
			}
			found, err = s.buildsAt(newest).BuildStatus(in.Name, nil)
			return found, s.builds.Head(), err
		})
	})
	s.registerPipeline()
	s.registerJob()
}

// buildsAt answers questions about the build groups of the log as of its newest event: what
// only the present knows, such as which workers there are, is not part of it.
func (s *Server) buildsAt(newest deploylog.Event) *query.Builds {
	return query.BuildsAt(s.builds, s.Log, newest.CreatedAt)
}

func (s *Server) registerPipeline() {
	type input struct {
		NameInput
		Conditional
		Hosts bool `query:"hosts" doc:"With a row for every host."`
		All   bool `query:"all" doc:"Leave nothing out: lists are bounded otherwise, and left_out says what they do not have."`
	}
	register(s, reading("pipelines", "pipeline", "The status of a pipeline whose revisions are released"), func(ctx context.Context, in *input) (*answer[query.PipelineStatus], error) {
		return derived(ctx, s, in.Conditional, []string{"pipeline", in.Name, strconv.FormatBool(in.Hosts), strconv.FormatBool(in.All)}, func(deploylog.Event) (found query.PipelineStatus, event int64, err error) {
			if err := s.pipelines.Follow(ctx, 0); err != nil {
				return found, 0, err
			}
			if err := s.pipelines.Check(in.Name); err != nil {
				return found, 0, err
			}
			all, err := s.pipelines.Status(in.Hosts, in.All, in.Name)
			if err != nil {
				return found, 0, err
			}
			return query.Bound(all, in.All)[0], s.pipelines.Head(), nil
		})
	})
}

func (s *Server) registerJob() {
	type input struct {
		NameInput
		Conditional
		Job string `path:"job" maxLength:"512" doc:"Its number, or what it builds."`
	}
	op := reading("builds", "job", "A job of a build group")
	op.Path += "/jobs/{job}"
	register(s, op, func(ctx context.Context, in *input) (*answer[build.JobReport], error) {
		return derived(ctx, s, in.Conditional, []string{"job", in.Name, in.Job}, func(newest deploylog.Event) (found build.JobReport, event int64, err error) {
			if err := s.builds.Follow(ctx, 0); err != nil {
				return found, 0, err
			}
			found, err = s.buildsAt(newest).Job(in.Name, in.Job)
			return found, s.builds.Head(), err
		})
	})
}

// registerPromotions adds what reads pipelines that promote by observed state. How they stand
// also follows from the time, and from who is at work.
func (s *Server) registerPromotions() {
	all := query.Promotions{Promotions: s.promotions, Environments: s.environments}
	follow := func(ctx context.Context) error {
		return errors.Join(s.promotions.Follow(ctx, 0), s.environments.Follow(ctx, 0))
	}
	type named struct {
		NameInput
		Conditional
	}
	register(s, reading("promotions", "promotion", "The status of a pipeline that promotes by observed state"), func(ctx context.Context, in *named) (*answer[query.PromotionStatus], error) {
		return stated(ctx, s, in.Conditional, func(deploylog.Event) (found query.PromotionStatus, event int64, err error) {
			if err := follow(ctx); err != nil {
				return found, 0, err
			}
			if !slices.Contains(all.Present(), in.Name) {
				return found, 0, huma.Error404NotFound("there is no pipeline of that name that promotes by observed state: /v1/promotions lists those that there are")
			}
			found, err = all.Status(in.Name)
			return found, found.Event, err
		})
	})
	register(s, listing("promotions", "", "Pipelines that promote by observed state, by name"), func(ctx context.Context, in *ListInput) (*part[query.PromotionRow], error) {
		return list[query.PromotionRow]{path: "/v1/promotions", timed: true, key: func(p query.PromotionRow) string { return p.Name }, read: func(string, deploylog.Event) ([]query.PromotionRow, int64, error) {
			if err := follow(ctx); err != nil {
				return nil, 0, err
			}
			rows, err := all.List()
			rows = scope.Rows(ctx, identity.Pipelines, rows, func(p query.PromotionRow) string { return p.Name })
			return rows, s.promotions.Head(), err
		}}.part(ctx, s, in)
	})
}
