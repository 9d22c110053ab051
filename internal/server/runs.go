package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/deployster-go/deployster/control/apply"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/proposal"
	"github.com/deployster-go/deployster/runner/encoding"
)

// maxInputs is how many bytes all that a run carries may have.
const maxInputs = 64 << 20

var aboutRuns = []string{"runs"}

// registerRuns adds what has manifests applied by the server itself.
func (s *Server) registerRuns() {
	type runInput struct {
		Key  string `header:"Idempotency-Key" maxLength:"200" doc:"A text that the sender made up at random, for this run and no other: sent again within a day, also to another server of the log, it is answered with the run that has begun."`
		Body proposal.Run
	}
	type begun struct{ Body proposal.Begun }
	register(s, Operation{
		ID: "begin-run", Method: http.MethodPost, Path: "/v1/runs", Role: identity.Operator, tags: aboutRuns,
		Summary:     "Apply manifests with the engine of the server, or destroy what they declare",
		Description: "It is answered when the log says that the run has begun. Secrets are not sent: the variables name their files and carry a hash, and the server has the same secrets in the same files.",
	}, func(ctx context.Context, in *runInput) (*begun, error) {
		out, err := s.beginRun(ctx, in.Key, in.Body)
		return &begun{out}, err
	})
	type planInput struct {
		Body proposal.Run
	}
	register(s, Operation{
		ID: "begin-plan", Method: http.MethodPost, Path: "/v1/plans", Role: identity.Operator, tags: aboutRuns,
		Summary:     "Plan what a run would change",
		Description: "It is followed and stopped as a run, and changes nothing. When it has ended, a run can be bound to it, as long as the server has it.",
	}, func(ctx context.Context, in *planInput) (*begun, error) {
		out, err := s.beginPlan(ctx, in.Body)
		return &begun{out}, err
	})
	register(s, Operation{
		ID: "begin-drift", Method: http.MethodPost, Path: "/v1/drifts", Role: identity.Operator, tags: aboutRuns,
		Summary:     "Look whether resources are as manifests configure them",
		Description: "It is followed and stopped as a run, and changes nothing.",
	}, func(ctx context.Context, in *planInput) (*begun, error) {
		out, err := s.beginDrift(ctx, in.Body)
		return &begun{out}, err
	})
	type named struct {
		Run string `path:"run" maxLength:"64" doc:"Id of the run."`
	}
	type observedInput struct {
		Run   string `path:"run" maxLength:"64" doc:"Id of the run."`
		After int64  `query:"after" minimum:"0" doc:"Only what has a greater number."`
	}
	register(s, Operation{
		ID: "follow-run", Method: http.MethodGet, Path: "/v1/runs/{run}/events", Role: identity.Viewer, tags: aboutRuns, streams: true,
		Summary: "What is observed of a run that this server carries out, until it has ended",
		Description: "As lines of JSON, of which the last one says how it ended. An empty line now and then says that the stream is alive. " +
			"Of runs that others carry out, or that ended long ago, the log has the events.",
		answers: map[string]*huma.Response{"200": {Description: "What is observed", Content: map[string]*huma.MediaType{
			"application/x-ndjson": {Schema: &huma.Schema{Type: huma.TypeObject, Description: "n, event, and end in the last one."}},
		}}},
	}, func(_ context.Context, in *observedInput) (*huma.StreamResponse, error) {
		one, err := s.runOf(in.Run)
		if err != nil {
			return nil, err
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) { s.showRun(ctx, one, in.After) }}, nil
	})
	type shown struct {
		ContentType string `header:"Content-Type"`
		Body        []byte
	}
	register(s, Operation{
		ID: "get-plan", Method: http.MethodGet, Path: "/v1/plans/{run}", Role: identity.Operator, tags: aboutRuns,
		Summary: "A plan that has ended, without secrets",
	}, func(_ context.Context, in *named) (*shown, error) {
		one, err := s.runOf(in.Run)
		if err != nil {
			return nil, err
		}
		plan := one.Planned()
		if plan == nil {
			return nil, huma.Error404NotFound(fmt.Sprintf("run %s has planned nothing", one.ID))
		}
		return &shown{"application/json", plan}, nil
	})
	register(s, Operation{
		ID: "get-plan-to-save", Method: http.MethodGet, Path: "/v1/plans/{run}/saved", Role: identity.Operator, tags: aboutRuns,
		Summary:     "A plan that has ended, with the salted hashes by which what is not as planned is found out",
		Description: "Who asks for it completes it with the hashes of the manifests and variables. Without the salt it tells nothing of a secret; with it guesses of a weak one can be tried.",
	}, func(_ context.Context, in *named) (*shown, error) {
		one, err := s.runOf(in.Run)
		if err != nil {
			return nil, err
		}
		plan, err := one.Saved()
		if err == nil && plan == nil {
			err = huma.Error404NotFound(fmt.Sprintf("run %s has no plan that can be applied", one.ID))
		}
		return &shown{"application/json", plan}, err
	})
	register(s, Operation{
		ID: "get-drift", Method: http.MethodGet, Path: "/v1/drifts/{run}", Role: identity.Operator, tags: aboutRuns,
		Summary: "What a look that has ended saw, without secrets",
	}, func(_ context.Context, in *named) (*shown, error) {
		one, err := s.runOf(in.Run)
		if err != nil {
			return nil, err
		}
		report := one.Drifted()
		if report == nil {
			return nil, huma.Error404NotFound(fmt.Sprintf("run %s has no report of drift", one.ID))
		}
		return &shown{"application/json", report}, nil
	})
	register(s, Operation{
		ID: "stop-run", Method: http.MethodPost, Path: "/v1/runs/{run}/stop", Role: identity.Operator, tags: aboutRuns,
		Summary: "Have a run begin nothing new: it ends when the actions that are running have finished",
	}, func(_ context.Context, in *named) (*begun, error) {
		one, err := s.runOf(in.Run)
		if err != nil {
			return nil, err
		}
		one.Stop()
		return &begun{proposal.Begun{Run: one.ID, Target: one.Target}}, nil
	})
}

// runOf is a run that this server carries out.
func (s *Server) runOf(id string) (*apply.Served, error) {
	if s.Runs != nil {
		if one := s.Runs.Find(id); one != nil {
			return one, nil
		}
	}
	return nil, huma.Error404NotFound(fmt.Sprintf("this server carries out no run %.100q; the log may have its events", id))
}

// beginRun has a run begin, once, however often it is sent.
func (s *Server) beginRun(ctx context.Context, key string, asked proposal.Run) (out proposal.Begun, err error) {
	if s.Runs == nil {
		return out, huma.Error409Conflict("this server carries out no runs")
	}
	if err := s.checkRun(ctx, asked); err != nil {
		return out, err
	}
	by := identity.Of(ctx).Name
	request := requested(ctx, asked)
	if key != "" {
		body, err := json.Marshal(asked)
		if err != nil {
			return out, err
		}
		once := newRequest(by, key, "runs", string(body))
		unlock, err := s.lockRequest(ctx, once)
		if err != nil {
			return out, err
		}
		defer unlock()
		if before, did, err := s.runBefore(ctx, once); err != nil || did {
			return before, err
		}
		if request.Mark, err = json.Marshal(mark{ID: once.ID, Of: once.Of, Events: 1}); err != nil {
			return out, err
		}
	}
	one, err := s.Runs.Begin(ctx, request)
	if err != nil {
		return out, notBegun(ctx, err)
	}
	s.Logger.Info("a run has begun", "run", one.ID, "target", one.Target, "by", by)
	return proposal.Begun{Run: one.ID, Target: one.Target}, nil
}

// beginPlan has a run planned.
func (s *Server) beginPlan(ctx context.Context, asked proposal.Run) (proposal.Begun, error) {
	return s.beginLook(ctx, asked, (*apply.Runs).Plan)
}

// beginDrift has a look at resources begin.
func (s *Server) beginDrift(ctx context.Context, asked proposal.Run) (out proposal.Begun, err error) {
	if asked.Destroy {
		return out, huma.Error422UnprocessableEntity("drift is of what manifests configure: leave destroy out")
	}
	return s.beginLook(ctx, asked, (*apply.Runs).Drift)
}

func (s *Server) beginLook(ctx context.Context, asked proposal.Run, begin func(*apply.Runs, context.Context, apply.Request) (*apply.Served, error)) (out proposal.Begun, err error) {
	switch {
	case s.Runs == nil:
		return out, huma.Error409Conflict("this server carries out no runs")
	case asked.Plan != "" || asked.Saved != "":
		return out, huma.Error422UnprocessableEntity("what only looks is bound to no plan: leave plan and saved out")
	}
	if err := s.checkRun(ctx, asked); err != nil {
		return out, err
	}
	one, err := begin(s.Runs, ctx, requested(ctx, asked))
	if err != nil {
		return out, notBegun(ctx, err)
	}
	return proposal.Begun{Run: one.ID, Target: one.Target}, nil
}

// requested returns what an authenticated caller asks for.
func requested(ctx context.Context, r proposal.Run) apply.Request {
	return apply.Request{
		Manifests: r.Manifests, Carries: r.Carries, Removing: r.Destroy, Orphans: r.Orphans, Targets: r.Targets, Replace: r.Replace, Prune: r.Prune, KeepGoing: r.KeepGoing, Verbose: r.Verbose, Plan: r.Plan, Saved: r.Saved, Again: r.Again, By: identity.Of(ctx).Name,
	}
}

// lockRequest keeps the same request, sent again, from beginning a second run before the log
// says that the first one has begun.
func (s *Server) lockRequest(ctx context.Context, r *request) (unlock func(), err error) {
	name := "request/" + r.ID
	release, err := s.Log.Lock(ctx, name)
	if err != nil {
		return nil, err
	}
	return func() {
		release()
		if p, leaves := s.Log.(deploylog.LockPruner); leaves {
			_ = p.PruneLock(name) // at worst it stays
		}
	}, nil
}

// runBefore is the run that has begun for a request already.
func (s *Server) runBefore(ctx context.Context, r *request) (out proposal.Begun, did bool, err error) {
	before, did, err := s.requests.find(ctx, r.ID)
	switch {
	case err != nil || !did:
		return out, false, err
	case before.of != r.Of:
		return out, true, huma.Error422UnprocessableEntity("the Idempotency-Key was used for another request: each has one of its own")
	}
	for e, err := range s.Log.Read(ctx, deploylog.Filter{After: before.first - 1, Until: before.first}) {
		return proposal.Begun{Run: e.Deployment, Target: string(e.Target)}, true, err
	}
	return out, true, fmt.Errorf("event %d, which says which run has begun, is not in the log", before.first)
}

// notBegun is why a run has not begun, as the API says it. What is wrong with the manifests, and
// why an engine cannot be used, is for who asks to mend.
func notBegun(ctx context.Context, err error) error {
	var input *work.InputError
	switch {
	case errors.As(err, &input):
		return because(huma.Error422UnprocessableEntity(err.Error()), err)
	case errors.Is(err, apply.ErrNotPlanned): // another server of the log may have it
		return because(huma.Error410Gone(err.Error()), err)
	case errors.Is(err, apply.ErrBusy):
		return because(huma.Error429TooManyRequests(err.Error()), err)
	case errors.Is(err, apply.ErrStopping):
		return because(huma.Error503ServiceUnavailable(err.Error()), err)
	case ctx.Err() != nil, errors.Is(err, deploylog.ErrPoisoned), errors.Is(err, deploylog.ErrUnwritten):
		return err
	default:
		return because(huma.Error409Conflict(err.Error()), err)
	}
}

// carriedApart are the names of what a run carries that is no file: its variables, what a lock says of its
// images, and what was left out.
var carriedApart = []string{revision.VariablesName, revision.ImagesName, revision.OmittedName}

// checkRun refuses what no run can be of.
func (s *Server) checkRun(ctx context.Context, r proposal.Run) error {
	if err := checkOrphans(r); err != nil {
		return err
	}
	if err := s.checkFiles(ctx, r.Carries); err != nil {
		return err
	}
	size := int64(0)
	for name, digest := range r.Carries {
		if strings.HasPrefix(name, "/") && !slices.Contains(carriedApart, name) || !strings.HasPrefix(name, "/") && !isPath(name) {
			return huma.Error422UnprocessableEntity(fmt.Sprintf("%.200q is no path of a file in a workspace", name))
		}
		content, bytes, err := s.Objects.Open(digest)
		if err != nil {
			return err
		}
		if err := content.Close(); err != nil {
			return err
		}
		if size += bytes; size > maxInputs {
			return huma.Error422UnprocessableEntity(fmt.Sprintf("what it carries has more than %d MiB", maxInputs>>20))
		}
	}
	if err := s.checkSaved(r); err != nil {
		return err
	}
	for _, name := range r.Manifests {
		if !isPath(name) {
			return huma.Error422UnprocessableEntity(fmt.Sprintf("%.200q is no path of a manifest in a workspace", name))
		}
		if r.Carries[name] == "" {
			return huma.Error422UnprocessableEntity(fmt.Sprintf("it does not carry its manifest %.200q", name))
		}
	}
	for _, name := range slices.Concat(r.Manifests, r.Targets) {
		if len(name) > maxRunName {
			return huma.Error422UnprocessableEntity(fmt.Sprintf("%.200q… is too long: it may have %d bytes", name, maxRunName))
		}
	}
	if len(strings.Join(r.Manifests, "+")) > maxRunName {
		return huma.Error422UnprocessableEntity(fmt.Sprintf("the names of its manifests are too long: together they may have %d bytes", maxRunName))
	}
	return nil
}

// checkOrphans refuses what is of no manifests and removes no orphans, and orphans of manifests.
func checkOrphans(r proposal.Run) error {
	switch whole := len(r.Replace) > 0 || r.Prune || r.Saved != "" || len(r.Carries) > 0; {
	case r.Orphans && (len(r.Manifests) > 0 || !r.Destroy || whole):
		return huma.Error422UnprocessableEntity("orphans are of all manifests, and are only removed: say destroy, and leave manifests, carries, replace, prune and saved out")
	case !r.Orphans && len(r.Manifests) == 0:
		return huma.Error422UnprocessableEntity("there are no manifests: name at least one, or say orphans and destroy")
	}
	return nil
}

// checkSaved refuses a saved plan that cannot be applied.
func (s *Server) checkSaved(r proposal.Run) error {
	switch {
	case r.Saved == "" && r.Again:
		return huma.Error422UnprocessableEntity("again is of a saved plan, and there is none: leave again out")
	case r.Saved == "":
		return nil
	case r.Plan != "" || r.Destroy:
		return huma.Error422UnprocessableEntity("a saved plan says all that is done: leave plan and destroy out")
	}
	switch err := s.Objects.Check(r.Saved); {
	case sendable(err):
		return huma.Error422UnprocessableEntity(fmt.Sprintf("object %s, the saved plan, is not here: put it first", r.Saved))
	default:
		return err
	}
}

// maxRunName is how long the name of a manifest or of a resource may be.
const maxRunName = 500

// isPath reports whether a text is the path of a file below a workspace, as all write it.
func isPath(name string) bool {
	return fs.ValidPath(name) && name != "." && !strings.ContainsFunc(name, unicode.IsControl)
}

// showRun writes what is observed of a run, until it has ended, and aborts an answer that ends
// before: where who asked may read no more, or the server ends.
func (s *Server) showRun(hc huma.Context, one *apply.Served, after int64) {
	if !s.observed(hc, one, after) {
		panic(http.ErrAbortHandler)
	}
}

// observed writes what is observed of a run, and reports whether that was all.
func (s *Server) observed(hc huma.Context, one *apply.Served, after int64) bool {
	r, w := humago.Unwrap(hc)
	control := http.NewResponseController(w)
	out := s.progressing(hc)
	hc.SetHeader("Content-Type", "application/x-ndjson")
	hc.SetHeader("X-Accel-Buffering", "no")
	beat := time.NewTicker(s.Heartbeat)
	defer beat.Stop()
	mayRead := func() bool { // a token may have been revoked
		who, err := s.Identify(r)
		return err == nil && who.MayRead()
	}
	for {
		events, more, ended := one.After(after)
		if len(events) == 0 && ended {
			result := one.Result()
			_ = json.NewEncoder(out).Encode(proposal.Observed{N: after + 1, End: &proposal.End{ // who asked may have gone
				Outcome: string(result.Outcome), Error: result.Why, Problems: result.Problems,
			}})
			return true
		}
		for _, o := range events {
			if json.NewEncoder(out).Encode(proposal.Observed{N: o.N, Event: encoding.LineOf(o.Event), Notice: o.Notice}) != nil {
				return false
			}
			after = o.N
		}
		if control.Flush() != nil {
			return false
		}
		if len(events) > 0 {
			select {
			case <-beat.C: // though there is always more
				if !mayRead() {
					return false
				}
			default:
			}
			continue
		}
		select {
		case <-more:
		case <-hc.Context().Done():
			if _, _, ended := one.After(after); !ended { // otherwise the server ends, and this run has
				return false
			}
		case <-beat.C:
			if !mayRead() {
				return false
			}
			if _, err := out.Write([]byte("\n")); err != nil {
				return false
			}
		}
	}
}
