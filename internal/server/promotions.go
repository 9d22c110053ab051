package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// definePromotion has a pipeline defined that promotes by observed state. With asOf, it is
// refused if it was defined or deleted since the caller looked at it.
func (s *Server) definePromotion(ctx context.Context, name string, asOf int64, c promotion.Define) (events []deploylog.Event, err error) {
	if c.Definition, err = s.promoting(ctx, name, c.Definition); err != nil {
		return nil, err
	}
	// While both kinds are locked no pipeline of the other kind can get the name.
	err = s.pipelines.Hold(ctx, func() error {
		p, err := s.pipelines.Find(name)
		switch {
		case err != nil && !errors.Is(err, pipelines.ErrNoPipeline):
			return err
		case err == nil && p.Deleted() == 0 && p.Definition() != nil:
			return huma.Error409Conflict(fmt.Sprintf("pipeline %s is one whose revisions are released: delete it first, or take another name", name))
		}
		events, err = s.changePromotion(ctx, name, true, asOf, c, func(p *promotion.State) error {
			return errors.Join(bindPromoting(ctx, p.Definition(), c.Definition), s.reachesPromoting(ctx, p, c.Definition))
		})
		return err
	})
	return events, err
}

// removePromotion has a pipeline deleted that promotes by observed state. With asOf, it is
// refused if it was defined or deleted since the caller looked at it.
func (s *Server) removePromotion(ctx context.Context, name string, asOf int64, c promotion.Delete) ([]deploylog.Event, error) {
	return s.changePromotion(ctx, name, false, asOf, c, func(*promotion.State) error { return nil })
}

// changePromotion has a command recorded that may do, unless the pipeline is another than after
// the event asOf.
func (s *Server) changePromotion(ctx context.Context, name string, create bool, asOf int64, c promotion.Command, may func(*promotion.State) error) ([]deploylog.Event, error) {
	if err := s.environments.Follow(ctx, 0); err != nil {
		return nil, err
	}
	return s.promotions.Change(ctx, name, create, func(p *promotion.State) ([]deploylog.Event, error) {
		if err := may(p); err != nil {
			return nil, err
		}
		for _, event := range []string{promotion.PipelineDefined, promotion.PipelineDeleted} {
			for _, err := range s.Log.Read(ctx, deploylog.Filter{After: asOf, Target: promotion.Target(name), Name: event, Last: 1}) {
				if err != nil {
					return nil, err
				}
				if asOf > 0 {
					return nil, errOtherwise
				}
			}
		}
		return p.Propose(c, promotions.Observe(s.environments, p, nil), s.Now())
	})
}

// promoting reads a definition again as files are, and refuses what could not be done here.
func (s *Server) promoting(ctx context.Context, name string, d *definition.Definition) (*definition.Definition, error) {
	if d == nil {
		return nil, huma.Error422UnprocessableEntity("there is no definition")
	}
	d, err := d.Reread("definition")
	if err != nil {
		return nil, because(huma.Error422UnprocessableEntity(err.Error()), err)
	}
	if d.Name != name {
		return nil, huma.Error422UnprocessableEntity(fmt.Sprintf("the definition is of pipeline %s, not of %.200q", d.Name, name))
	}
	for i := range d.Stages {
		if err := s.checkStage(ctx, &d.Stages[i]); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// checkStage refuses a stage that names files outside of the workspace, or does not carry what
// verifies it.
func (s *Server) checkStage(ctx context.Context, stage *definition.Stage) error {
	var paths []string
	if stage.Verify != "" {
		paths = append(paths, stage.Verify)
	}
	if stage.Targets != nil {
		paths = append(paths, stage.Targets.Manifest)
		if err := s.checkTargets(ctx, stage.Name, stage.Targets); err != nil {
			return err
		}
	}
	if err := s.checkClusters(stage); err != nil {
		return err
	}
	if stage.Webhook != nil {
		paths = append(paths, stage.Webhook.KeyFile)
	}
	for _, file := range stage.SecretFiles() {
		paths = append(paths, *file.Path)
	}
	for _, path := range paths {
		if !filepath.IsLocal(path) {
			return huma.Error422UnprocessableEntity(fmt.Sprintf("stage %s: %.200q is no path of a file in the workspace", stage.Name, path))
		}
	}
	if err := s.checkFiles(ctx, stage.VerifyFiles); err != nil {
		return err
	}
	switch {
	case stage.Verify == "" && len(stage.VerifyFiles) > 0:
		return huma.Error422UnprocessableEntity(fmt.Sprintf("stage %s carries files, and nothing verifies it", stage.Name))
	case stage.Verify != "" && stage.VerifyFiles[stage.Verify] == "":
		return huma.Error422UnprocessableEntity(fmt.Sprintf("stage %s does not carry %.200q, which verifies it: collect it as deployster pipeline apply does", stage.Name, stage.Verify))
	}
	return nil
}

// checkTargets refuses a stage on hosts that does not carry its manifest, or selects nothing.
func (s *Server) checkTargets(ctx context.Context, stage string, t *definition.Targets) error {
	if err := inventory.CheckQuery(t.Hosts); err != nil {
		return because(huma.Error422UnprocessableEntity(fmt.Sprintf("stage %s: hosts: %v", stage, err)), err)
	}
	if t.Files[t.Manifest] == "" {
		return huma.Error422UnprocessableEntity(fmt.Sprintf("stage %s does not carry %.200q, its manifest: collect it as deployster pipeline apply does", stage, t.Manifest))
	}
	return s.checkFiles(ctx, t.Files)
}

// checkClusters refuses a stage of objects in a cluster that the inventory here does not have.
func (s *Server) checkClusters(stage *definition.Stage) error {
	for _, o := range stage.Objects {
		all, err := s.Hosts.Inventory()
		if err != nil {
			return because(huma.Error409Conflict(err.Error()), err)
		}
		if _, err := all.FindCluster(o.Cluster); err != nil {
			return because(huma.Error422UnprocessableEntity(fmt.Sprintf("stage %s, by the inventory of the server: %v", stage.Name, err)), err)
		}
	}
	return nil
}

// reachesPromoting refuses a definition by which a pipeline would begin to deploy to an
// environment, or to verify one, to which its sender may not deploy. As of pipelines whose
// revisions are released, which hosts it reaches is for its admins to say.
func (s *Server) reachesPromoting(ctx context.Context, p *promotion.State, d *definition.Definition) error {
	before := map[string]bool{}
	if was := p.Definition(); was != nil {
		for i := range was.Stages {
			before[was.Stages[i].Environment] = true
		}
	}
	for i := range d.Stages {
		if d.Stages[i].Sighted() {
			continue
		}
		if err := reach(ctx, before, d.Stages[i].Name, d.Stages[i].Environment); err != nil {
			return err
		}
	}
	return nil
}
