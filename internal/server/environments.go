package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/acceptance"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/inventory"
	pipelinedefinition "github.com/deployster-go/deployster/pipeline/definition"
)

// environment calls what the command line calls for an environment. Which hosts a query
// selects, and what tasks make there, it finds out itself, whatever the command says. With asOf,
// an update is refused where the environment has got another revision since.
func (s *Server) environment(ctx context.Context, name string, asOf int64, command environment.Command) ([]deploylog.Event, error) {
	if err := s.environments.Follow(ctx, 0); err != nil {
		return nil, err
	}
	var hosts []string
	var err error
	wrong := unrevised(asOf)
	switch c := command.(type) {
	case environment.Create:
		if err = s.bindCreate(ctx, name); err != nil {
			break
		}
		if c.Bound = bounded(ctx); c.Bound { // it may have been deleted since
			wrong = mustExist(name)
		}
		if hosts, err = s.drafted(ctx, name, &c.Definition); err == nil {
			c.Inventory = s.Hosts.Identity()
			s.foresee(c.Definition, hosts)
		}
		command = c
	case environment.Update:
		command, hosts, err = s.update(ctx, name, c)
	case environment.Accept:
		hosts, err = s.acceptable(ctx, name)
	case environment.Deploy:
		c.Hosts, c.Inventory, err = s.deployable(ctx, name, c.Revision)
		command = c
	case environment.Rollback:
		c.Hosts, c.Inventory, err = s.deployable(ctx, name, c.Revision)
		command = c
	case environment.Restart:
		c.Hosts, c.Inventory, err = s.deployable(ctx, name, s.active(name))
		command = c
	case environment.Adopt:
		c.Hosts, c.Inventory, err = s.deployable(ctx, name, c.Revision)
		command = c
	case environment.AdoptFrom:
		if !identity.Of(ctx).May(identity.Operator, identity.Environments, c.From) {
			return nil, huma.Error403Forbidden("you may not do this: what another environment left is recorded there, too")
		}
		c.Hosts, c.Inventory, err = s.deployable(ctx, name, c.Revision)
		command = c
	case environment.ConfirmHosts:
		var query string
		if query, err = reconcile.Get(s.environments.Fold, name, (*environment.State).Query); err == nil {
			c.Hosts, err = s.selected(query)
		}
		c.Known, c.Inventory = s.Hosts.Known, s.Hosts.Identity()
		command = c
	case environment.CordonHosts:
		err = s.known(name, c.Hosts)
	case environment.UncordonHosts:
		err = s.known(name, c.Hosts)
	}
	if err != nil {
		return nil, err
	}
	return s.environments.CommandIf(ctx, name, command, wrong, hosts...)
}

// update returns the command that a sender may have recorded for an update, and the hosts here that its definition selects.
func (s *Server) update(ctx context.Context, name string, c environment.Update) (command environment.Command, hosts []string, err error) {
	if hosts, err = s.drafted(ctx, name, &c.Definition); err != nil {
		return c, nil, err
	}
	c.Inventory = s.Hosts.Identity()
	s.foresee(c.Definition, hosts)
	found, err := s.bindUpdate(ctx, name, &c, hosts)
	if err != nil || len(found) == 0 {
		return c, hosts, err
	}
	return environment.Ask{Update: c, Excess: acceptance.Lines(found, s.Bounded.UpdateNotCompared(hosts)), ID: s.NewID()}, hosts, nil
}

// acceptable are the hosts here that a revision selects which waits to be accepted. It fails if what the revision carries is
// not here. If none waits, the command is refused.
func (s *Server) acceptable(ctx context.Context, name string) (hosts []string, err error) {
	var asked report.Asked
	waits := false
	if s.environments.Ask(name, func(e *environment.State) error {
		asked, waits = e.Asked(s.Now())
		return nil
	}) != nil || !waits {
		return nil, nil
	}
	if err := s.checkCarried(ctx, asked.Definition); err != nil {
		return nil, err
	}
	if hosts, err = s.selected(asked.Definition.InstanceGroup.Query); err == nil {
		s.foresee(asked.Definition, hosts)
	}
	return hosts, err
}

// unrevised refuses an environment that has got another revision since an event; 0 is none.
func unrevised(asOf int64) func(*environment.State) error {
	if asOf == 0 {
		return nil
	}
	return func(s *environment.State) error {
		all := s.Revisions()
		if len(all) == 0 {
			return nil
		}
		newest := all[len(all)-1]
		if newest.Seq <= asOf {
			return nil
		}
		return huma.NewError(http.StatusPreconditionFailed, fmt.Sprintf("environment %s has got revision %d since, by %s (event %d): read it again, make the update from that, and send it with the ETag of what was read",
			s.Name(), newest.Number, newest.By, newest.Seq))
	}
}

// selected are the hosts here that a query selects.
func (s *Server) selected(query string) ([]string, error) {
	hosts, err := s.Hosts.Selected(query)
	if err != nil {
		return nil, because(huma.Error409Conflict(err.Error()), err)
	}
	return hosts, nil
}

// active is the revision of an environment that is deployed; 0 is none.
func (s *Server) active(name string) int {
	d, err := reconcile.Get(s.environments.Fold, name, func(s *environment.State) report.Deployment {
		d, _ := s.ActiveDeployment()
		return d
	})
	if err != nil {
		return 0
	}
	return d.Revision
}

// deployable are the hosts here to which a revision would be deployed, and what the inventory
// is known as. It fails where what the revision carries is not here. Of what there is not,
// the command is refused.
func (s *Server) deployable(ctx context.Context, name string, revision int) (hosts []string, of string, err error) {
	var r report.Revision
	if s.environments.Ask(name, func(s *environment.State) (err error) {
		r, err = s.Revision(revision)
		return err
	}) != nil {
		return nil, "", nil
	}
	if hosts, err = s.selected(r.Definition.InstanceGroup.Query); err != nil {
		return nil, "", err
	}
	for _, files := range []map[string]string{work.TaskFiles(r.Definition.Task), r.Definition.Deployment.VerifyFiles} {
		if name, _, err := s.missing(ctx, files); err != nil {
			return nil, "", because(huma.Error409Conflict(fmt.Sprintf("files of revision %d: %s: %v", r.Number, strings.TrimPrefix(name, "/"), err)), err)
		}
	}
	return hosts, s.Hosts.Identity(), nil
}

// missing is the first of some files that is not kept here, or cannot be read.
func (s *Server) missing(ctx context.Context, files map[string]string) (name, digest string, err error) {
	checked := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		digest := files[name]
		if checked[digest] { // it may be large, and be named by many
			continue
		}
		checked[digest] = true
		if ctx.Err() != nil {
			return name, digest, context.Cause(ctx)
		}
		if err := s.Objects.Check(digest); err != nil {
			return name, digest, err
		}
	}
	return "", "", nil
}

// sendable reports whether an object is not kept here, or not as it was: sent again, it is.
func sendable(err error) bool {
	return errors.Is(err, objects.ErrMissing) || errors.Is(err, objects.ErrAltered)
}

// checkKept refuses files of which who sends them has to put the contents first.
func (s *Server) checkKept(ctx context.Context, files map[string]string) error {
	for name, digest := range files {
		if !objects.IsHash(digest) {
			return huma.Error422UnprocessableEntity(fmt.Sprintf("what %.200q is to carry is no digest", name))
		}
	}
	switch name, digest, err := s.missing(ctx, files); {
	case sendable(err):
		return huma.Error422UnprocessableEntity(fmt.Sprintf("object %s of %.200q is not here: put it first", digest, name))
	case err != nil:
		return fmt.Errorf("what is carried as %.200q: %w", name, err)
	}
	return nil
}

// drafted returns the hosts here that the definition of a requested revision selects.
// It is read again as files are, so that what no file could say is refused, and it has to
// carry its manifests: else hosts would get what lies in the workspace of the server.
func (s *Server) drafted(ctx context.Context, name string, d **definition.Definition) ([]string, error) {
	if *d == nil {
		return nil, huma.Error422UnprocessableEntity("there is no definition")
	}
	sent := *d
	if sent.Name != name {
		return nil, huma.Error422UnprocessableEntity(fmt.Sprintf("the definition is of environment %.200q, not of %.200q", sent.Name, name))
	}
	read, err := definition.Parse("definition", sent.YAML(), inventory.CheckQuery)
	if err != nil {
		return nil, because(huma.Error422UnprocessableEntity(err.Error()), err)
	}
	read.Task.Digest, read.Task.Includes, read.Deployment.VerifyFiles = sent.Task.Digest, sent.Task.Includes, sent.Deployment.VerifyFiles
	if err := s.checkCarried(ctx, read); err != nil {
		return nil, err
	}
	*d = read
	return s.selected(read.InstanceGroup.Query)
}

// foresee finds out what the next revision of an environment makes on hosts, which is remembered. To
// read its manifest for each of them takes longer than all that is done while other commands wait.
func (s *Server) foresee(d *definition.Definition, hosts []string) {
	if s.Things == nil {
		return
	}
	next := environments.Draft(d, nil)
	if known, err := reconcile.Get(s.environments.Fold, d.Name, func(e *environment.State) tasks.Task { return environments.Draft(d, e) }); err == nil {
		next = known
	}
	for _, host := range hosts {
		next.Host = host
		s.Things(next)
	}
}

// checkCarried refuses a definition that does not carry what it is to apply.
func (s *Server) checkCarried(ctx context.Context, d *definition.Definition) error {
	if d.Task.Digest == "" || d.Task.Includes == nil {
		return huma.Error422UnprocessableEntity("the definition does not carry its manifest: put that and what it includes as objects, and name their digests in task.digest and task.includes")
	}
	for _, name := range d.Deployment.Verifies() {
		if d.Deployment.VerifyFiles[name] == "" {
			return huma.Error422UnprocessableEntity(fmt.Sprintf("the definition does not carry %.200q, which verifies a step: name its digest in deployment.verify_files", name))
		}
	}
	for _, files := range []map[string]string{work.TaskFiles(d.Task), d.Deployment.VerifyFiles} {
		if err := s.checkFiles(ctx, files); err != nil {
			return err
		}
	}
	return nil
}

// maxFiles is how many files a revision may carry.
const maxFiles = 2000

// checkFiles refuses files that are not here, or that could not be of a workspace.
func (s *Server) checkFiles(ctx context.Context, files map[string]string) error {
	if len(files) > maxFiles {
		return huma.Error422UnprocessableEntity(fmt.Sprintf("it carries %d files, and at most %d are possible", len(files), maxFiles))
	}
	for name := range files {
		if below := strings.TrimPrefix(name, "/"); !filepath.IsLocal(below) {
			return huma.Error422UnprocessableEntity(fmt.Sprintf("%.200q is no path of a file in a workspace", name))
		}
	}
	return s.checkKept(ctx, files)
}

// known refuses hosts that neither the environment nor the inventory knows: a name that is
// mistyped would protect nothing.
func (s *Server) known(name string, hosts []string) error {
	r, err := reconcile.Get(s.environments.Fold, name, (*environment.State).Report)
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for _, h := range r.Hosts {
		has[h.Host] = true
	}
	for _, c := range r.Cordoned {
		has[c.Host] = true
	}
	for _, host := range hosts {
		if !has[host] && !s.Hosts.Known(host) {
			return huma.Error422UnprocessableEntity(fmt.Sprintf("environment %s has no host %.200q, and the inventory of the server lists none of that name", name, host))
		}
	}
	return nil
}

// Hosts are those of the inventory of a server.
type Hosts interface {
	Version() int // another number when the rest may answer differently
	Inventory() (*inventory.Inventory, error)
	Selected(query string) ([]string, error)
	Identity() string
	Known(name string) bool
	Members(d *pipelinedefinition.Definition) (map[string][]string, error)
}

// Inventory is the hosts of a server as its clients see them.
type Inventory struct {
	Identity string `json:"identity" doc:"What the inventory is known as."`
	Hosts    []Host `json:"hosts"`
}

// Host is one of them, without how its engine is reached.
type Host struct {
	Name       string              `json:"name"`
	Platforms  []string            `json:"platforms"`
	Slots      int                 `json:"slots"`
	Attributes map[string][]string `json:"attributes"`
}

// registerInventory adds what says which hosts there are.
func (s *Server) registerInventory() {
	register(s, Operation{
		ID: "get-inventory", Method: http.MethodGet, Path: "/v1/inventory", Role: identity.Viewer, tags: []string{"hosts"}, answers: unchanged(),
		Summary: "The hosts that queries select from, without how their engines are reached",
	}, func(ctx context.Context, in *Conditional) (*answer[Inventory], error) {
		return stated(ctx, s, *in, func(deploylog.Event) (Inventory, int64, error) {
			all, err := s.Hosts.Inventory()
			if err != nil {
				return Inventory{}, 0, because(huma.Error409Conflict(err.Error()), err)
			}
			out := Inventory{Identity: s.Hosts.Identity(), Hosts: []Host{}}
			for _, h := range all.Hosts {
				out.Hosts = append(out.Hosts, hostOf(h))
			}
			return out, 0, nil
		})
	})
}
