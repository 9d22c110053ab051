package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/control/submitted"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/proposal"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
)

// checker checks groups that were collected elsewhere, for the workers here.
func (s *Server) checker() submitted.Checker {
	return submitted.Checker{
		Load: s.Objects.Load, Check: s.Objects.Check, Artifact: s.Artifacts.Use, Inventory: s.Workers.Identity(), Own: s.NewID(),
	}
}

// stageGroupsOf says of the build groups that a revision carries which definition they were checked
// against.
type stageGroupsOf struct {
	checked bool // there are some
	against *definition.Definition
}

// carryGroups checks the build groups of a revision that is to be released, and has it carry them
// as they are here. It takes too long to be done under the lock of the pipeline.
func (s *Server) carryGroups(ctx context.Context, name string, asOf int64, c *pipeline.Release) (of stageGroupsOf, err error) {
	for name := range c.Carries {
		if _, is := record.StageOfGroup(name); is {
			of.checked = true
		}
	}
	if !of.checked {
		return of, nil
	}
	if err := errors.Join(s.redefined(ctx, name, asOf), s.pipelines.Follow(ctx, 0)); err != nil {
		return of, err
	}
	err = s.pipelines.Ask(name, func(p *pipeline.State) error {
		of.against = p.Definition()
		return nil
	})
	if err == nil {
		c.Carries, err = s.stageGroups(ctx, of.against, c.Carries)
	}
	return of, err
}

// stageGroups checks the build groups among what a revision of a pipeline is to carry, and returns
// what it is to carry with them as they are here: the hashes by which
// the inputs of their jobs are known are made here, and not taken from the caller. A caller who may not submit groups
// may not have revisions carry any.
func (s *Server) stageGroups(ctx context.Context, d *definition.Definition, carries map[string]string) (map[string]string, error) {
	stages := map[string]string{}
	for name := range carries {
		if stage, is := record.StageOfGroup(name); is {
			stages[name] = stage
		}
	}
	if len(stages) == 0 {
		return carries, nil
	}
	if !identity.Of(ctx).May(identity.Operator, proposal.Builds, "") {
		return nil, huma.Error403Forbidden("you may not do this: the revision carries a build group, and you may not submit build groups")
	}
	files := map[string]string{}
	if d != nil {
		d.BuildGroups(func(stage string, path *string) { files[stage] = *path })
	}
	leave, ok := s.large.Take(ctx, identity.Of(ctx).Name) // only so many of them fit into the memory
	if !ok {
		return nil, huma.Error429TooManyRequests("as much is sent already as fits at once, by others or by you: send it again later")
	}
	defer leave()
	all := maps.Clone(carries)
	for _, name := range slices.Sorted(maps.Keys(stages)) {
		stage := stages[name]
		if files[stage] == "" {
			return nil, huma.Error422UnprocessableEntity(fmt.Sprintf("it carries a build group for stage %.200q, which builds no packages", stage))
		}
		digest, err := s.stageGroup(ctx, carries[name], files[stage])
		if _, is := errors.AsType[*submitted.InvalidError](err); is {
			return nil, because(huma.Error422UnprocessableEntity(fmt.Sprintf("stage %s: %v", stage, err)), err)
		}
		if err != nil {
			return nil, err
		}
		all[name] = digest
	}
	return all, nil
}

// stageGroup keeps the group of a stage as it is to be carried.
func (s *Server) stageGroup(ctx context.Context, digest, file string) (string, error) {
	text, err := s.Objects.Load(digest)
	if err != nil {
		return "", err
	}
	whole, err := s.checker().Carried(ctx, text, file)
	if err != nil {
		return "", err
	}
	return s.Objects.Keep(whole)
}
