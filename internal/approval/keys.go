package approval

import (
	"context"
	"fmt"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/approval"
	"github.com/deployster-go/deployster/pipeline/record"
)

// AddKey adds a key to a pipeline. Its stages are approval stages, by names that people use.
func AddKey(ctx context.Context, p *pipelines.Pipelines, name string, key record.KeyInfo, id, by string) ([]deploylog.Event, error) {
	return p.Change(ctx, name, false, func(s *pipeline.State) ([]deploylog.Event, error) {
		if s.Definition() == nil {
			return nil, refusal.New(pipeline.UnknownPipeline, "pipeline %s was deleted (event %d): apply its definition to create it again", name, s.Deleted())
		}
		var stages []string
		for _, given := range key.Stages {
			stage, err := s.Stage(given)
			if err != nil {
				return nil, err
			}
			for _, defined := range s.Definition().Stages {
				if defined.Name == stage && defined.Approval == nil {
					return nil, fmt.Errorf("key %s cannot approve at stage %s: it is a %s stage", key.ID, stage, defined.Kind())
				}
			}
			stages = append(stages, stage)
		}
		key.Stages = stages
		e, err := s.Keys().Add(record.Target(name), key, id, by)
		return []deploylog.Event{e}, err
	})
}

// RevokeKey revokes a key of a pipeline: it signs nothing from then on.
func RevokeKey(ctx context.Context, p *pipelines.Pipelines, name, key, id, by, reason string) ([]deploylog.Event, error) {
	return p.Change(ctx, name, false, func(s *pipeline.State) ([]deploylog.Event, error) {
		e, err := s.Keys().Revoke(record.Target(name), key, id, by, reason)
		return []deploylog.Event{e}, err
	})
}

// KeysOf are the keys of a pipeline.
func KeysOf(p *pipelines.Pipelines, name string) (keys []approval.Key, err error) {
	err = p.Ask(name, func(s *pipeline.State) error {
		keys = s.Keys().All()
		return nil
	})
	return keys, err
}
