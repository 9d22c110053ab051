package server

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/effect"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// errOtherwise is why a command is refused that was decided upon when it would have come to
// something else.
var errOtherwise = huma.NewError(http.StatusPreconditionFailed, "it would come to something else by now: look again at what it comes to")

// define has a pipeline defined with the hosts here. With asOf, it is refused where it has come
// to change anything that it did not change then, when its sender was shown what it changes.
func (s *Server) define(ctx context.Context, name string, asOf int64, c pipeline.Define) ([]deploylog.Event, error) {
	members, err := s.defined(ctx, name, &c)
	if err != nil {
		return nil, err
	}
	shown, existed, err := s.shown(ctx, name, asOf, &c, members)
	if err != nil {
		return nil, err
	}
	events, err := s.pipelines.Change(ctx, name, true, func(p *pipeline.State) ([]deploylog.Event, error) {
		if err := s.bindDefine(ctx, p, &c); err != nil {
			return nil, err
		}
		exists := p.Definition() != nil && p.Deleted() == 0
		if err := s.reaches(ctx, p, c.Definition); err != nil {
			return nil, err
		}
		if promotes, err := promotions.Has(ctx, s.Log, name, 0); err != nil {
			return nil, err
		} else if promotes {
			return nil, huma.Error409Conflict(fmt.Sprintf("pipeline %s promotes by observed state: delete it first, or take another name", name))
		}
		if err := upstream.Check(c.Definition, s.pipelines.Upstream); err != nil {
			return nil, because(huma.Error422UnprocessableEntity(err.Error()), err)
		}
		now, err := p.Preview(&c, members)
		if err != nil {
			return nil, err
		}
		switch {
		case asOf > 0 && slices.ContainsFunc(now, func(n effect.Change) bool { return !slices.Contains(shown, n) }):
			return nil, errOtherwise
		case c.Carries == nil && exists && (!existed || p.Takes()) && !p.Defines(c.Definition): // revisions under way are to get something
			return nil, errOtherwise
		}
		return p.Propose(c, s.Now())
	})
	if err != nil {
		return events, err
	}
	if _, err := s.pipelines.Command(ctx, name, pipeline.SetMembers{Members: members, ID: s.NewID(), By: c.By}); err != nil {
		s.Logger.Warn("the hosts of a pipeline that was defined are left to its scheduler", "pipeline", name, "error", err)
	}
	return events, nil
}

// shown is what a definition would have changed as of an event, and whether there was such a pipeline
// then. Without an event nothing was shown, and there is one.
func (s *Server) shown(ctx context.Context, name string, asOf int64, c *pipeline.Define, members map[string][]string) (shown []effect.Change, existed bool, err error) {
	if asOf == 0 {
		return nil, true, nil
	}
	then := pipelines.New(s.Log, s.Now)
	if err := then.Follow(ctx, asOf); err != nil {
		return nil, false, err
	}
	existed = then.Ask(name, func(p *pipeline.State) (err error) {
		if p.Definition() == nil || p.Deleted() > 0 {
			return pipelines.ErrNoPipeline
		}
		shown, err = p.Preview(c, members)
		return err
	}) == nil
	return shown, existed, nil
}

// defined reads the definition again as files are, and returns the hosts here of its groups.
func (s *Server) defined(ctx context.Context, name string, c *pipeline.Define) (members map[string][]string, err error) {
	if c.Definition == nil {
		return nil, huma.Error422UnprocessableEntity("there is no definition")
	}
	if c.Definition, err = c.Definition.Reread("definition", inventory.CheckQuery); err != nil {
		return nil, because(huma.Error422UnprocessableEntity(err.Error()), err)
	}
	if c.Definition.Name != name {
		return nil, huma.Error422UnprocessableEntity(fmt.Sprintf("the definition is of pipeline %s, not of %.200q", c.Definition.Name, name))
	}
	for _, files := range []record.Files{c.Carries, c.Files} {
		if err := s.checkFiles(ctx, files); err != nil {
			return nil, err
		}
	}
	if missing := notCarried(c.Definition, c.Carries); c.Carries != nil && missing != "" {
		return nil, huma.Error422UnprocessableEntity(fmt.Sprintf("revisions under way would not get %.200q, which the pipeline applies: collect what they are to carry as deployster pipeline apply does", missing))
	}
	if c.Carries == nil && notCarried(c.Definition, nil) == "" {
		c.Carries = record.Files{} // there is nothing to carry
	}
	if c.Carries, err = s.stageGroups(ctx, c.Definition, c.Carries); err != nil {
		return nil, err
	}
	if members, err = s.Hosts.Members(c.Definition); err != nil {
		return nil, because(huma.Error409Conflict(err.Error()), err)
	}
	if slices.ContainsFunc(c.Definition.Stages, func(s definition.Stage) bool { return s.Deploy != nil || s.Environment != "" }) {
		c.Inventory = s.Hosts.Identity()
	}
	return members, nil
}

// reaches refuses a definition by which a pipeline would begin to deploy to an environment to
// which its sender may not.
func (s *Server) reaches(ctx context.Context, p *pipeline.State, d *definition.Definition) error {
	before := map[string]bool{}
	if was := p.Definition(); was != nil && p.Deleted() == 0 {
		for i := range was.Stages {
			before[was.Stages[i].Environment] = true
		}
	}
	for i := range d.Stages {
		if err := reach(ctx, before, d.Stages[i].Name, d.Stages[i].Environment); err != nil {
			return err
		}
	}
	return nil
}

// reach refuses a stage that would begin to deploy to an environment to which its sender may
// not.
func reach(ctx context.Context, before map[string]bool, stage, to string) error {
	if to != "" && !before[to] && !identity.Of(ctx).May(identity.Operator, identity.Environments, to) {
		return huma.Error403Forbidden(fmt.Sprintf("you may not do this: stage %s would deploy to environment %s", stage, to))
	}
	return nil
}

// remove has a pipeline deleted. With asOf, it is refused where other revisions are under way
// than were then.
func (s *Server) remove(ctx context.Context, name string, asOf int64, c pipeline.Delete) ([]deploylog.Event, error) {
	var running []string
	if asOf > 0 {
		then := pipelines.New(s.Log, s.Now)
		if err := then.Follow(ctx, asOf); err != nil {
			return nil, err
		}
		if err := then.Ask(name, func(p *pipeline.State) error {
			running = query.InProgress(p)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return s.pipelines.Change(ctx, name, false, func(p *pipeline.State) ([]deploylog.Event, error) {
		if asOf > 0 && !reflect.DeepEqual(query.InProgress(p), running) {
			return nil, errOtherwise
		}
		return p.Propose(c, s.Now())
	})
}
