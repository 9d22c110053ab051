package promotion

import (
	"context"
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// collectTargets has the stages of a definition that are manifests on hosts carry these, as they
// are now in the workspace. Those of objects carry nothing.
func collectTargets(ctx context.Context, a *app.App, d *definition.Definition, inputs Inputs) error {
	among := work.NewHosts(inputs.Inventory)
	remote, err := a.Remote() // whose clusters count: it says itself which ones it lacks
	if err != nil {
		return err
	}
	for i := range d.Stages {
		stage := &d.Stages[i]
		if remote == nil {
			if err := knowsClusters(among, stage); err != nil {
				return err
			}
		}
		if stage.Targets == nil {
			continue
		}
		if err := inventory.CheckQuery(stage.Targets.Hosts); err != nil {
			return exit.Usage("stage %s: hosts: %w", stage.Name, err)
		}
		hosts, err := among.Selected(stage.Targets.Hosts)
		if err != nil {
			return fmt.Errorf("stage %s: hosts: %w", stage.Name, err)
		}
		c := &carrying{
			stage: stage.Name, manifest: stage.Targets.Manifest, vars: map[string]any{d.Promotion.Variable: "revision"}, partly: true,
			known: work.TargetVariables(d.Name, stage.Name, "host", among),
			places: func(load func(map[string]any) (*work.Input, error)) (places []work.Place, err error) {
				for _, host := range hosts {
					known := work.TargetVariables(d.Name, stage.Name, host, among)
					places = append(places, work.Place{Host: host, Load: func() (*work.Input, error) { return load(known) }})
				}
				if len(places) == 0 {
					places = []work.Place{{Load: func() (*work.Input, error) { return load(work.TargetVariables(d.Name, stage.Name, "host", among)) }}}
				}
				return places, nil
			},
		}
		delete(c.known, "host_attributes") // of none that there is
		if stage.Targets.Files, err = collect(ctx, a, c, inputs); err != nil {
			return err
		}
		if resource, _ := stage.Targets.Attribute(); resource != "" && !c.has(resource) {
			return exit.Usage("stage %s: revision: manifest %s has no resource %s", stage.Name, stage.Targets.Manifest, resource)
		}
	}
	return nil
}

// knowsClusters refuses a stage of objects in a cluster that the inventory does not have.
func knowsClusters(hosts *work.Hosts, stage *definition.Stage) error {
	for _, o := range stage.Objects {
		v, err := hosts.Inventory()
		if err != nil {
			return fmt.Errorf("stage %s: cluster %s: %w", stage.Name, o.Cluster, err)
		}
		if _, err := v.FindCluster(o.Cluster); err != nil {
			return exit.Usage("stage %s: %w", stage.Name, err)
		}
	}
	return nil
}

// readsAll refuses a manifest that does not read a variable by which its revisions are to be
// told apart. Where that cannot be told without a host, it is not refused.
func (c *carrying) readsAll(load func() (*work.Input, error)) error {
	in, err := load()
	if err != nil {
		return nil //nolint:nilerr // the value is none that it could have
	}
	for _, r := range in.Manifest.Resources {
		c.resources = append(c.resources, r.Name)
	}
	unread := slices.IndexFunc(in.Usage.Unread(), func(p manifest.Problem) bool { return c.vars[p.Path] != nil })
	if unread >= 0 {
		return exit.Usage("stage %s: manifest %s does not read the variable %s, so nobody could tell which revision its hosts run: read it where the revision shows, or name another by promotion.revision", c.stage, c.manifest, in.Usage.Unread()[unread].Path)
	}
	return nil
}

// has reports whether the manifest has a resource, as far as that is known.
func (c *carrying) has(resource string) bool {
	return len(c.resources) == 0 || slices.Contains(c.resources, resource)
}
