package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/control/submitted"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/acceptance"
	"github.com/deployster-go/deployster/internal/approval"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/notification"
	"github.com/deployster-go/deployster/internal/proposal"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline"
	machine "github.com/deployster-go/deployster/pipeline/approval"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// commandInput is a command for what the path names.
type commandInput struct {
	Name    string `path:"name" maxLength:"512" doc:"Slashes are written %2F."`
	IfMatch string `header:"If-Match" maxLength:"80" doc:"The ETag of what was read, or the number of an event, for release, define and delete of pipelines and update of environments: it is refused with 412 where what it was made for has changed since."`
	Key     string `header:"Idempotency-Key" maxLength:"200" doc:"A text that the sender made up at random, for this request and no other: sent again within a day, also to another server of the log, it is done once and answered as before."`
	RawBody []byte `contentType:"application/json"`
}

// beginInput is a command by which something begins.
type beginInput struct {
	Key     string `header:"Idempotency-Key" maxLength:"200" doc:"As of other commands."`
	RawBody []byte `contentType:"application/json"`
}

// maxSubmission is how large a build group may be as it is sent, in bytes.
const maxSubmission = 32 << 20

// conditionalVerbs are those that heed If-Match, by what grants them.
var conditionalVerbs = map[string][]string{identity.Pipelines: {"release", "define", "delete"}, identity.Environments: {"update"}}

// recorded is what a command came to.
type recorded struct {
	Body struct {
		Events []deploylog.Event `json:"events"`
	}
}

// registerCommands adds all that can be sent.
func (s *Server) registerCommands() {
	for _, verb := range proposal.Verbs() {
		one := strings.TrimSuffix(verb.Kind, "s")
		schema := s.api.OpenAPI().Components.Schemas.Schema(verb.Body(), true, "command-"+one+"-"+verb.Name)
		op := Operation{
			ID: verb.Name + "-" + one, Method: http.MethodPost, Path: verb.Path("{name}"),
			Role: verb.Role, Kind: verb.GrantedBy(), Summary: verb.Summary, tags: []string{verb.Kind},
			body: &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}},
		}
		if verb.Begins {
			op.maxBody = maxSubmission
			register(s, op, func(ctx context.Context, in *beginInput) (*recorded, error) {
				return s.send(ctx, verb, &commandInput{Key: in.Key, RawBody: in.RawBody})
			})
			continue
		}
		register(s, op, func(ctx context.Context, in *commandInput) (*recorded, error) { return s.send(ctx, verb, in) })
	}
}

// send has a command carried out that was sent.
func (s *Server) send(ctx context.Context, verb proposal.Verb, in *commandInput) (*recorded, error) {
	if in.IfMatch != "" && !slices.Contains(conditionalVerbs[verb.GrantedBy()], verb.Name) {
		return nil, huma.Error422UnprocessableEntity("If-Match is heeded for release, define and delete of pipelines and update of environments alone: leave it out")
	}
	if verb.Begins {
		if err := submitted.Bound(in.RawBody); err != nil {
			return nil, because(huma.Error422UnprocessableEntity(err.Error()), err)
		}
	}
	command, err := verb.Decode(in.RawBody, proposal.Says{By: identity.Of(ctx).Name, ID: s.NewID(), Group: in.Name})
	if err != nil {
		return nil, because(huma.Error422UnprocessableEntity(err.Error()), err)
	}
	if s.Commands != nil {
		defer s.Commands.Take()()
	}
	var once *request
	if in.Key != "" {
		once = newRequest(identity.Of(ctx).Name, in.Key, verb.Kind, in.Name, verb.Name, in.IfMatch, string(in.RawBody))
	}
	events, err := s.once(ctx, once, func(ctx context.Context) ([]deploylog.Event, error) { return s.command(ctx, verb, in, command) })
	if err != nil {
		return nil, refused(err)
	}
	var out recorded
	out.Body.Events = append([]deploylog.Event{}, events...)
	return &out, nil
}

// refused is why a command is not recorded, as the API says it.
func refused(err error) error {
	var said huma.StatusError
	var why *refusal.Error
	switch {
	case errors.As(err, &said):
		return err
	case errors.Is(err, pipelines.ErrNoPipeline), errors.Is(err, promotions.ErrNoPipeline), errors.Is(err, environments.ErrNoEnvironment), errors.Is(err, build.ErrNoGroup), errors.Is(err, build.ErrNoJob), errors.Is(err, query.ErrNotFound),
		errors.Is(err, pipeline.ErrUnknown), errors.Is(err, pipeline.ErrAmbiguous), errors.Is(err, upstream.ErrUnknown), errors.Is(err, environment.ErrUnknown), errors.Is(err, notification.ErrNotAbandoned):
		return because(huma.Error404NotFound(err.Error()), err)
	case errors.As(err, &why), errors.Is(err, identity.ErrToken):
		return because(huma.Error409Conflict(err.Error()), err)
	case errors.Is(err, deploylog.ErrInvalid):
		return because(huma.Error422UnprocessableEntity(err.Error()), err)
	case errors.Is(err, deploylog.ErrDuplicate):
		return because(huma.Error409Conflict(err.Error()), err)
	default:
		return err
	}
}

// command calls what the command line calls.
func (s *Server) command(ctx context.Context, verb proposal.Verb, in *commandInput, command any) ([]deploylog.Event, error) {
	asOf, err := s.asOf(ctx, in.IfMatch)
	if err != nil {
		return nil, err
	}
	switch c := command.(type) {
	case pipeline.Release:
		return s.release(ctx, in, asOf, c)
	case pipeline.Define:
		return s.define(ctx, in.Name, asOf, c)
	case pipeline.ReceiveArtifact:
		c.Bound = bounded(ctx)
		return s.pipelines.Command(ctx, in.Name, c)
	case pipeline.Rerun:
		return s.rerun(ctx, in.Name, c)
	case pipeline.Delete:
		return s.remove(ctx, in.Name, asOf, c)
	case machine.AddKey:
		return s.approvals().AddKey(ctx, in.Name, c)
	case machine.RevokeKey:
		return s.approvals().RevokeKey(ctx, in.Name, c)
	case pipeline.Command:
		return s.pipelines.Command(ctx, in.Name, c)
	case promotion.Define:
		return s.definePromotion(ctx, in.Name, asOf, c)
	case promotion.Delete:
		return s.removePromotion(ctx, in.Name, asOf, c)
	case promotion.Command:
		return s.promotions.Command(ctx, s.environments, in.Name, c)
	case environment.Command:
		return s.environment(ctx, in.Name, asOf, c)
	case identity.Issue:
		return s.tokens.Issue(ctx, in.Name, c)
	case identity.Revoke:
		return s.tokens.Revoke(ctx, in.Name, c)
	case build.Submit:
		return s.submit(ctx, c)
	case notification.Retry:
		return c.Do(ctx, s.recording(), in.Name)
	case build.Command:
		return s.builds.Command(ctx, c)
	}
	return nil, fmt.Errorf("the command %s is of no kind that is known", verb.Name)
}

// rerun has a stage of a revision done again with files that are kept here.
func (s *Server) rerun(ctx context.Context, name string, c pipeline.Rerun) ([]deploylog.Event, error) {
	if err := s.checkKept(ctx, c.Carries); err != nil {
		return nil, err
	}
	if err := s.bindRerun(ctx, name, &c); err != nil {
		return nil, err
	}
	return s.pipelines.Command(ctx, name, c)
}

// approvals are the pipelines of both kinds, which have keys.
func (s *Server) approvals() approval.Pipelines {
	return approval.Pipelines{Released: s.pipelines.Pipelines, Observed: s.promotions, Environments: s.environments}
}

// notCarried is a manifest that a revision of a pipeline would need and does not carry; "" is
// none. Without it, hosts would get what the file says when each has its turn.
func notCarried(d *definition.Definition, carries map[string]string) string {
	var missing []string
	needs := func(key, name string) {
		if name != "" && carries[key] == "" {
			missing = append(missing, name)
		}
	}
	for i := range d.Stages {
		stage := &d.Stages[i]
		if stage.Build != nil && stage.Build.Group != "" {
			needs(record.CarriedGroup(stage.Name), stage.Build.Group)
			continue
		}
		once, _ := stage.Once()
		needs(once, once)
		if stage.Deploy == nil {
			continue
		}
		for _, step := range stage.Deploy.Steps {
			needs(step.Manifest, step.Manifest)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return slices.Min(missing)
}

// release has a revision released that carries what is kept, and takes of other pipelines
// what it would get here.
func (s *Server) release(ctx context.Context, in *commandInput, asOf int64, c pipeline.Release) ([]deploylog.Event, error) {
	if err := s.checkKept(ctx, c.Carries); err != nil {
		return nil, err
	}
	groups, err := s.carryGroups(ctx, in.Name, asOf, &c)
	if err != nil {
		return nil, err
	}
	against, own, found, err := s.bindRelease(ctx, in.Name, &c)
	if err != nil {
		return nil, err
	}
	notCompared := ""
	if len(found) > 0 {
		notCompared = s.Bounded.ReleaseNotCompared(against)
	}
	return s.pipelines.Change(ctx, in.Name, false, func(p *pipeline.State) ([]deploylog.Event, error) {
		if c.Bound && (p.Definition() != against || !maps.Equal(p.Own(), own)) {
			return nil, errReleaseMoved
		}
		if groups.checked && p.Definition() != groups.against {
			return nil, errReleaseMoved
		}
		if err := s.redefined(ctx, in.Name, asOf); err != nil {
			return nil, err
		}
		if d := p.Definition(); d != nil {
			if missing := notCarried(d, c.Carries); missing != "" {
				return nil, huma.Error422UnprocessableEntity(fmt.Sprintf("the revision does not carry %.200q, which the pipeline applies: collect what it carries as deployster pipeline release does", missing))
			}
			named := map[string]string{}
			for _, t := range c.Takes {
				named[t.Pipeline] = t.Revision
			}
			chosen, err := upstream.Take(d, named, s.pipelines.Upstream)
			if err != nil {
				return nil, err
			}
			var takes []upstream.Input
			for _, c := range chosen {
				takes = append(takes, c.Input)
			}
			if len(takes)+len(c.Takes) > 0 && !reflect.DeepEqual(takes, c.Takes) {
				return nil, errReleaseMoved
			}
		}
		if len(found) > 0 {
			return p.Propose(pipeline.Ask{Release: c, Excess: acceptance.Lines(found, notCompared)}, s.Now())
		}
		return p.Propose(c, s.Now())
	})
}

// errReleaseMoved is why a revision is not released of which something else was collected.
var errReleaseMoved = huma.NewError(http.StatusPreconditionFailed, "the pipeline has changed since, or what the revision takes: collect anew")

// redefined fails where a pipeline was defined after an event; 0 is none.
func (s *Server) redefined(ctx context.Context, name string, asOf int64) error {
	if asOf == 0 {
		return nil
	}
	for _, err := range s.Log.Read(ctx, deploylog.Filter{After: asOf, Target: record.Target(name), Name: record.PipelineDefined}) {
		return cmp.Or(err, error(errReleaseMoved))
	}
	return nil
}

// asOf is the event that If-Match names, by its number or by the ETag of what followed from it; 0
// is none.
func (s *Server) asOf(ctx context.Context, text string) (seq int64, err error) {
	if text == "" {
		return 0, nil
	}
	digits, _, _ := strings.Cut(strings.Trim(text, `"`), "-")
	seq, err = strconv.ParseInt(digits, 10, 64)
	if err != nil || seq <= 0 {
		return 0, huma.Error422UnprocessableEntity("If-Match must be one ETag of what was read, or the number of an event")
	}
	head, err := s.head(ctx)
	if err == nil && seq > head {
		err = huma.NewError(http.StatusPreconditionFailed, fmt.Sprintf("there is no event %d: the log ends with event %d; read again what it is made for", seq, head))
	}
	return seq, err
}
