package server

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/environment"
	envdefinition "github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/internal/allow"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	promotion "github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Who is operator of some pipelines and environments alone brings no more to their hosts than what their definitions
// name and allow. Who is operator of everything may apply manifests of their own on the server anyway.

// bounded reports whether who asks may bring no more than what definitions name and allow.
func bounded(ctx context.Context) bool { return !identity.Of(ctx).May(identity.Operator, "", "") }

// exceeded refuses what a caller may not bring. remedy is another way than to allow it.
func exceeded(ctx context.Context, what, remedy string, found []allow.Excess) error {
	if len(found) == 0 {
		return nil
	}
	const most = 20
	text := allow.Text(found[:min(most, len(found))])
	if more := len(found) - most; more > 0 {
		text += fmt.Sprintf("\n  and %d more", more)
	}
	return huma.Error403Forbidden(fmt.Sprintf("%s may not do this: %s brings what the present definition neither names nor allows:\n%s\n%s, or ask who may define it to allow it (allow)", identity.Of(ctx).Name, what, text, remedy))
}

// bindRelease refuses a revision by who may not bring what it carries, and has it bound otherwise. found is what one that
// only asks for it may not bring. For against and own see exceeds.
func (s *Server) bindRelease(ctx context.Context, name string, c *pipeline.Release) (against *definition.Definition, own record.Files, found []allow.Excess, err error) {
	against, own, found, err = s.exceeds(ctx, name, c)
	if err == nil && !c.Pending {
		err, found = exceeded(ctx, fmt.Sprintf("revision %s of pipeline %s", c.Revision, name), "Release it with --pending, and an operator of everything accepts it", found), nil
	}
	return against, own, found, err
}

// exceeds binds a revision by who may bring no more than what the pipeline names and allows, and finds what of it they
// may not bring. It takes too long to be done under the lock of the pipeline: against is the definition that it
// was checked against, and own what that names itself.
func (s *Server) exceeds(ctx context.Context, name string, c *pipeline.Release) (against *definition.Definition, own record.Files, found []allow.Excess, err error) {
	if !bounded(ctx) {
		return nil, nil, nil, nil
	}
	c.Bound = true
	if err := s.pipelines.Follow(ctx, 0); err != nil {
		return nil, nil, nil, err
	}
	err = s.pipelines.Ask(name, func(p *pipeline.State) error {
		against, own = p.Definition(), p.Own()
		return nil
	})
	if err != nil || against == nil {
		return nil, nil, nil, err // which the command says
	}
	if own == nil && notCarried(against, nil) != "" {
		return nil, nil, nil, huma.Error403Forbidden(fmt.Sprintf("you may not do this: it is not known what pipeline %s names itself, as an older version defined it. An admin applies its definition again (deployster pipeline apply -f FILE), or an operator of everything releases a revision", name))
	}
	files := against.Allow.ExcessFiles(own, c.Carries)
	if len(files) == 0 || c.Pending { // who accepts it has to know all
		found = s.Bounded.Release(against, own, *c)
	}
	return against, own, append(found, files...), nil
}

// bindRerun refuses what a stage that was added would get by who may not bring it.
func (s *Server) bindRerun(ctx context.Context, name string, c *pipeline.Rerun) error {
	if !bounded(ctx) || c.Carries == nil {
		return nil
	}
	r := pipeline.Release{Revision: c.Revision, Carries: c.Carries}
	_, _, found, err := s.exceeds(ctx, name, &r)
	if c.Bound = true; err != nil {
		return err
	}
	remedy := fmt.Sprintf("An operator of everything does it (deployster pipeline rerun %s %s %s)", name, c.Stage, c.Revision)
	return exceeded(ctx, fmt.Sprintf("stage %s of revision %s of pipeline %s", c.Stage, c.Revision, name), remedy, found)
}

// bindDefine refuses a definition by which who may not bring everything would let a pipeline bring more.
func (s *Server) bindDefine(ctx context.Context, p *pipeline.State, c *pipeline.Define) error {
	if !bounded(ctx) {
		return nil
	}
	c.Bound, c.Files = true, nil
	was := p.Definition()
	if was == nil || p.Deleted() > 0 {
		return huma.Error403Forbidden(fmt.Sprintf("you may not do this: there is no pipeline %s, and what its revisions may bring is for an admin of everything to say", c.Definition.Name))
	}
	found := was.Allow.ExcessFiles(p.Own(), c.Carries)
	if len(c.Carries) == 0 {
		found = nil // it brings nothing
	}
	if !reflect.DeepEqual(was.Allow, c.Definition.Allow) {
		found = append(found, allow.Excess{What: "allow", Asked: "another one", Allowed: "that of the present definition"})
	}
	var names []string
	was.Manifests(func(_ string, path *string) { names = append(names, *path) })
	c.Definition.Manifests(func(stage string, path *string) {
		if !slices.Contains(names, *path) && !was.Allow.File(*path) {
			found = append(found, allow.Excess{What: "stage " + stage, Asked: "manifest " + *path, Allowed: "those of the present definition"})
		}
	})
	for _, g := range c.Definition.Groups() {
		if slices.ContainsFunc(was.Groups(), func(o *definition.HostGroup) bool { return o.Hosts == g.Hosts }) {
			continue
		}
		asked, err := s.selected(g.Hosts)
		if err != nil {
			return err
		}
		var may []string
		if was.Allow != nil && was.Allow.Hosts != "" {
			if may, err = s.selected(was.Allow.Hosts); err != nil {
				return err
			}
		}
		if was.Allow == nil || g.Hosts != was.Allow.Hosts || slices.ContainsFunc(asked, func(host string) bool { return !slices.Contains(may, host) }) {
			e := allow.Excess{What: "host group " + g.Name, Asked: "hosts " + g.Hosts, Allowed: "those of the present definition"}
			if was.Allow != nil && was.Allow.Hosts != "" {
				e.Allowed += ", or " + was.Allow.Hosts
			}
			found = append(found, e)
		}
	}
	return exceeded(ctx, "the definition of pipeline "+c.Definition.Name, byAdmin, found)
}

// bindPromoting refuses a definition by which who may not bring everything would have the server apply, ask or read
// anything else for a stage.
func bindPromoting(ctx context.Context, was, d *promotion.Definition) error {
	if !bounded(ctx) {
		return nil
	}
	var found []allow.Excess
	for i := range d.Stages {
		var before promotion.Stage
		if was != nil {
			if n := was.Index(d.Stages[i].Name); n >= 0 {
				before = was.Stages[n]
			}
		}
		stage := d.Stages[i]
		for key, same := range map[string]bool{
			"manifest":     stage.Targets == nil || reflect.DeepEqual(before.Targets, stage.Targets),
			"objects":      len(stage.Objects) == 0 || reflect.DeepEqual(before.Objects, stage.Objects) && reflect.DeepEqual(before.Source, stage.Source),
			"webhook":      stage.Webhook == nil || reflect.DeepEqual(before.Webhook, stage.Webhook),
			"pull_request": stage.PullRequest == nil || reflect.DeepEqual(before.PullRequest, stage.PullRequest),
			"verify":       stage.Verify == "" || before.Verify == stage.Verify && maps.Equal(before.VerifyFiles, stage.VerifyFiles),
		} {
			if !same {
				found = append(found, allow.Excess{What: "stage " + stage.Name, Asked: "another " + key, Allowed: "that of the present definition"})
			}
		}
	}
	slices.SortFunc(found, func(a, b allow.Excess) int { return strings.Compare(a.String(), b.String()) })
	return exceeded(ctx, "the definition of pipeline "+d.Name, byAdmin, found)
}

// byAdmin is who defines what an admin of a pipeline alone may not.
const byAdmin = "An admin of everything applies it (deployster pipeline apply -f FILE)"

// bindCreate refuses an environment by who may not say what its revisions may bring.
func (s *Server) bindCreate(ctx context.Context, name string) error {
	exists := false
	_ = s.environments.Ask(name, func(e *environment.State) error { // of what there is, the command is refused
		exists = e.Exists()
		return nil
	})
	if exists || !bounded(ctx) {
		return nil
	}
	return notTheirs(name)
}

// notTheirs refuses to create an environment.
func notTheirs(name string) error {
	return huma.Error403Forbidden(fmt.Sprintf("you may not do this: there is no environment %s, and what its revisions may bring is for an operator of everything to say, who creates it from your file (deployster env create -f FILE)", name))
}

// mustExist refuses to create an environment that does not exist, for who may not say what it may bring.
func mustExist(name string) func(*environment.State) error {
	return func(e *environment.State) error {
		if e.Exists() {
			return nil // of which the command is refused
		}
		return notTheirs(name)
	}
}

// bindUpdate refuses a revision of an environment by who may not bring what it carries, and has it bound otherwise. found is
// what one that only asks for it may not bring.
func (s *Server) bindUpdate(ctx context.Context, name string, c *environment.Update, hosts []string) (found []allow.Excess, err error) {
	found, err = s.exceedsUpdate(ctx, name, c, hosts)
	if err == nil && !c.Pending {
		err, found = exceeded(ctx, "the revision of environment "+name, "Update it with --pending, and an operator of everything accepts it", found), nil
	}
	return found, err
}

// exceedsUpdate binds a revision by who may bring no more than the environment names and allows, and finds what of it they
// may not bring: first changes of the definition, then what the task brings, then hosts, and files last. If somebody
// has to accept the revision, another query is among them even if it selects only allowed hosts at present.
func (s *Server) exceedsUpdate(ctx context.Context, name string, c *environment.Update, hosts []string) (found []allow.Excess, err error) {
	if !bounded(ctx) {
		return nil, nil
	}
	c.Bound = true
	var own *envdefinition.Definition
	if err := s.environments.Ask(name, func(e *environment.State) error {
		if r, ok := e.Owner(); ok {
			own = r.Definition
		}
		return nil
	}); err != nil || own == nil {
		return nil, err
	}
	d := c.Definition
	if !reflect.DeepEqual(own.Allow, d.Allow) {
		found = append(found, allow.Excess{What: "allow", Asked: "another one, " + d.Allow.String(), Allowed: "that of the newest revision by an operator of everything"})
	}
	query := allow.Excess{What: "instance_group.query", Asked: d.InstanceGroup.Query, Allowed: own.InstanceGroup.Query}
	moved, unknown := query.Asked != query.Allowed, s.Bounded.Hosts == nil
	if moved && (unknown || c.Pending) { // it would be accepted for hosts that the query selects later, too
		found = append(found, query)
	}
	if d.Task.Manifest != own.Task.Manifest && !own.Allow.File(d.Task.Manifest) {
		found = append(found, allow.Excess{What: "task.manifest", Asked: d.Task.Manifest, Allowed: own.Task.Manifest})
	}
	for _, w := range d.Deployment.Verifies() {
		if !slices.Contains(own.Deployment.Verifies(), w) && !own.Allow.File(w) {
			found = append(found, allow.Excess{What: "deployment.steps", Asked: "verify " + w, Allowed: "what verifies steps already"})
		}
	}
	var last []allow.Excess
	if moved {
		last = s.Bounded.UpdateHosts(d, own, hosts)
	}
	last = append(last, excessFiles(own, d)...)
	if len(found)+len(last) == 0 || c.Pending { // who accepts it has to know all
		found = append(found, s.Bounded.Update(d, own, hosts)...)
	}
	if found = append(found, last...); !unknown && len(found) == 1 && found[0] == query {
		return nil, nil // it selects only hosts that it may, so there is nothing to accept
	}
	return found, nil
}

// excessFiles returns the files of a revision that the definition neither names nor allows.
func excessFiles(own, d *envdefinition.Definition) []allow.Excess {
	found := own.Allow.ExcessFiles(work.TaskFiles(own.Task), work.TaskFiles(d.Task))
	if len(d.Deployment.VerifyFiles) > 0 {
		found = append(found, own.Allow.ExcessFiles(own.Deployment.VerifyFiles, d.Deployment.VerifyFiles)...)
	}
	return found
}
