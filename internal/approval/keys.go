package approval

import (
	"context"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/approval"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/record"
)

// change has something recorded of the keys of a pipeline. stage finds a stage at which a key
// may approve, by a name that people use.
func (p Pipelines) change(ctx context.Context, name string, do func(keys *approval.Keys, stage func(key, given string) (string, error)) (deploylog.Event, error)) ([]deploylog.Event, error) {
	observed, err := p.follow(ctx, name)
	if err != nil {
		return nil, err
	}
	one := func(e deploylog.Event, err error) ([]deploylog.Event, error) { return []deploylog.Event{e}, err }
	if observed {
		return p.Observed.Change(ctx, name, false, func(s *promotion.State) ([]deploylog.Event, error) {
			return one(do(s.Keys(), func(key, given string) (string, error) {
				stage, err := s.Stage(given)
				if err == nil && !s.Definition().Stages[s.Definition().Index(stage)].Manual {
					err = refusal.New(approval.InvalidKey, "key %s cannot approve at stage %s: it is not manual", key, stage)
				}
				return stage, err
			}))
		})
	}
	return p.Released.Change(ctx, name, false, func(s *pipeline.State) ([]deploylog.Event, error) {
		if s.Definition() == nil {
			return nil, refusal.New(pipeline.UnknownPipeline, "pipeline %s was deleted (event %d): apply its definition to create it again", name, s.Deleted())
		}
		return one(do(s.Keys(), func(key, given string) (string, error) {
			stage, err := s.Stage(given)
			for _, defined := range s.Definition().Stages {
				if err == nil && defined.Name == stage && defined.Approval == nil {
					err = refusal.New(approval.InvalidKey, "key %s cannot approve at stage %s: it is a %s stage", key, stage, defined.Kind())
				}
			}
			return stage, err
		}))
	})
}

// AddKey adds a key to a pipeline. Its stages are those that wait for approval. Where the log
// takes commands, it is sent.
func (p Pipelines) AddKey(ctx context.Context, name string, c approval.AddKey) ([]deploylog.Event, error) {
	if events, sent, err := p.Released.Send(ctx, name, c, 0); sent {
		return events, err
	}
	return p.change(ctx, name, func(keys *approval.Keys, stage func(key, given string) (string, error)) (deploylog.Event, error) {
		add := record.KeyInfo{ID: c.Key, Owner: c.Owner, Public: c.Public, NotBefore: c.NotBefore, Expires: c.Expires}
		for _, given := range c.Stages {
			found, err := stage(c.Key, given)
			if err != nil {
				return deploylog.Event{}, err
			}
			add.Stages = append(add.Stages, found)
		}
		return keys.Add(record.Target(name), add, c.ID, c.By)
	})
}

// RevokeKey revokes a key of a pipeline: it signs nothing from then on. Where the log takes
// commands, it is sent.
func (p Pipelines) RevokeKey(ctx context.Context, name string, c approval.RevokeKey) ([]deploylog.Event, error) {
	if events, sent, err := p.Released.Send(ctx, name, c, 0); sent {
		return events, err
	}
	return p.change(ctx, name, func(keys *approval.Keys, _ func(key, given string) (string, error)) (deploylog.Event, error) {
		return keys.Revoke(record.Target(name), c.Key, c.ID, c.By, c.Reason)
	})
}
