package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/repeated"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/hidden"
	"github.com/deployster-go/deployster/runner/inits"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/plugs"
	"github.com/deployster-go/deployster/runner/report"
)

// prepare initializes all resource types, in parallel, and refuses what can be
// refused before anything is touched: plugs that are missing or not allowed,
// and configurations that break their type's schema where they do not wait for
// the state of a dependency. Such refusals are a *manifest.Error; all of them
// are reported at once. Plan and Apply call it; calling it again does nothing.
//
// The first resource of each type goes ahead of the others: a type that serves
// is asked for those by its process.
func (r *Runner) prepare(ctx context.Context) error {
	if r.prepared {
		return nil
	}
	queue := make(chan *resource, len(r.resources))
	followers := map[*resource][]*resource{}
	first := map[string]*resource{} // by type
	todo := slices.DeleteFunc(slices.Clone(r.resources), func(res *resource) bool { return res.unprepared })
	for _, res := range todo {
		if res.first = first[res.Type]; res.first != nil {
			followers[res.first] = append(followers[res.first], res)
			continue
		}
		first[res.Type] = res
		queue <- res
	}
	var left, workers sync.WaitGroup
	left.Add(len(todo))
	for range min(r.containers.Parallelism, len(todo)) {
		workers.Go(func() {
			for res := range queue {
				r.initializeOne(ctx, res)
				for _, follower := range followers[res] {
					queue <- follower
				}
				left.Done()
			}
		})
	}
	left.Wait()
	close(queue)
	workers.Wait()
	r.checkPlugs(ctx)
	if err := r.refusal(); err != nil {
		r.invoker.Drain(ctx)
		return err
	}
	r.prepared = true
	return nil
}

func (r *Runner) initializeOne(ctx context.Context, res *resource) {
	_, res.refused = guarded(ctx, r, res, "initializing", func(ctx context.Context, res *resource) (struct{}, error) {
		return struct{}{}, r.initialize(ctx, res)
	})
	if res.refused != nil {
		r.refuse(ctx, res, res.refused)
	}
}

// refusal sums up the failures of initialization: invalid input as one
// *manifest.Error where there is nothing else, else as one error.
func (r *Runner) refusal() error {
	var problems []manifest.Problem
	var others []error
	for _, res := range r.resources {
		var invalid *manifest.Error
		switch {
		case res.refused == nil:
		case errors.Is(res.refused, ErrInterrupted):
			return ErrInterrupted
		case errors.As(res.refused, &invalid):
			problems = append(problems, invalid.Problems...)
		default:
			others = append(others, fmt.Errorf("%s: %w", res.Name, res.refused))
		}
	}
	if len(others) > 0 {
		return &failure.Error{Causes: others}
	}
	problems = append(problems, r.nested...)
	if len(problems) > 0 {
		return &manifest.Error{Problems: repeated.Once(problems)}
	}
	return nil
}

func (r *Runner) initialize(ctx context.Context, res *resource) error {
	if r.containers.Stop.Requested() || ctx.Err() != nil {
		return ErrInterrupted
	}
	ctx, cancel := r.containers.Stop.Context(ctx)
	defer cancel()
	image, err := r.invoker.Image(ctx, res.Name, res.Type)
	if err != nil {
		return err
	}
	res.target.Image = image
	res.target.Former = r.isFormer(res)
	if err := r.bound(res, nil); err != nil {
		return err
	}
	started := r.now()
	if err := r.askInit(ctx, res); err != nil {
		return err
	}
	var without []string
	var problems []manifest.Problem
	res.target.Mounts, without, problems = r.plug(res, res.init.Plugs, r.unfollowed(res, r.written))
	res.without = without
	for _, text := range without {
		r.notify(report.Warning, res.Name, "init", text)
	}
	r.invoker.Serve(&res.target, res.init, res.target.Mounts)
	if known, err := r.configuredEarly(res); err != nil {
		var invalid *manifest.Error
		if !errors.As(err, &invalid) {
			return err
		}
		problems = append(problems, invalid.Problems...)
	} else if known != nil {
		res.config, res.final = known, true
		res.early = r.identify(res, nil).Known()
	}
	if len(problems) > 0 {
		return &manifest.Error{Problems: problems}
	}
	if err := r.bound(res, nil); err != nil {
		return err
	}
	res.initialized = lasted(res.event(report.ResourceInitialized), r.now().Sub(started))
	res.initialized.Image, res.initialized.ImageID = res.Type, image.ID
	return r.emit(ctx, res.initialized)
}

// askInit finds out what the type answers init.
func (r *Runner) askInit(ctx context.Context, res *resource) error {
	input := r.initInput(res)
	key := inits.Key(res.target.Image.ID, input)
	if r.spec.InitCache != nil {
		if r.remembered(res, key) {
			return nil
		}
		if answered := r.inits.Turn(ctx, inits.Question{Engine: r.containers.Engine, Key: key}); answered != nil {
			defer answered()
		}
		if r.remembered(res, key) { // by now
			return nil
		}
	}
	if res.first != nil {
		// Its own plugs are not known yet; those of its fellow are asked for alike, as a rule. No more is known
		// of who writes where: those that lead through links are left out.
		mounts, _, _ := r.plug(res, res.first.init.Plugs, r.unfollowed(res, declared(res.manifest)))
		r.invoker.Serve(&res.target, res.first.init, mounts)
	}
	got, err := r.invoker.Call(ctx, &res.target, invoke.Call{Action: "init", Attempt: 1, Input: input, Answers: true})
	if err != nil {
		return err
	}
	if got.Exit.Code != 0 {
		return r.exitError("init", got)
	}
	a := r.inits.Decode(got.Answer)
	if a.Err != nil {
		return fmt.Errorf("init of %s: %w", res.Type, r.secrets.MaskAnswerError(a.Err, got.Answer, func(text []byte) error {
			return inits.Decode(text).Err
		}))
	}
	res.init, res.schema, res.states = a.Output, a.Schema, a.States
	if r.spec.InitCache != nil {
		r.spec.InitCache.Put(key, got.Answer)
		r.note(res, got.Answer)
	}
	return nil
}

// remembered takes what the type answered once, if that is known.
func (r *Runner) remembered(res *resource, key string) bool {
	text, ok := r.spec.InitCache.Get(key)
	if !ok {
		return false
	}
	a := r.inits.Decode(text)
	if a.Err != nil {
		return false
	}
	res.init, res.schema, res.states = a.Output, a.Schema, a.States
	r.note(res, text)
	return true
}

func (r *Runner) initInput(res *resource) protocol.InitInput {
	return protocol.InitInput{Name: res.Name, Type: res.Type, Version: r.spec.Version, Verbose: r.spec.Verbose, Workspace: r.containers.Workspace}
}

// plug turns the requests of a resource's type into mounts, as plugs.Mount does. No link in what is written is followed.
func (r *Runner) plug(res *resource, requests map[string]protocol.PlugRequest, written []string) (mounts []engine.Mount, without []string, problems []manifest.Problem) {
	kept := r.containers.StateDir()
	if r.containers.Remote { // plugs are paths of another machine
		kept = ""
	}
	return plugs.Mount(res.manifest, res.Resource, requests, kept, slices.Concat(r.containers.Written, written))
}

// configuredEarly resolves and checks a configuration that does not wait for
// the state of a dependency, and returns nil for one that does.
func (r *Runner) configuredEarly(res *resource) (map[string]any, error) {
	if res.Late != nil {
		return nil, nil
	}
	waits, err := res.Needs(any(res.Config), r.spec.Expressions)
	if err != nil {
		return nil, r.misconfigured(res, err)
	}
	if len(waits) > 0 {
		return nil, nil
	}
	config, err := r.configured(res)
	if err != nil {
		return nil, err
	}
	return config, r.check(res, config)
}

// check holds a resolved configuration against its type's schema and learns
// its secrets.
func (r *Runner) check(res *resource, config map[string]any) error {
	var marked invoke.Paths
	if r.hides.Load() {
		res.hiding, marked = hidden.Places(config, r.secrets.MaskValue)
	}
	if res.undeclared != nil {
		marked = append(marked, res.undeclared.Secrets...)
	}
	if res.schema != nil {
		marked = append(slices.Clip(marked), res.schema.Secrets(config)...)
	}
	res.target.Secret = marked
	r.secrets.Add(config, marked)
	if res.schema == nil || res.undeclared != nil { // what was accepted once is removed, whatever its type accepts by now
		return nil
	}
	var problems []manifest.Problem
	for _, v := range res.schema.Validate(config) {
		p := res.Broken(v)
		p.Message = r.secrets.Mask(p.Message)
		problems = append(problems, p)
	}
	if len(problems) > 0 {
		return &manifest.Error{Problems: problems}
	}
	return nil
}

// note remembers what a type answered for commands that run nothing. One resource of each
// type is enough.
func (r *Runner) note(res *resource, answer []byte) {
	if res.first == nil {
		inits.Note(r.spec.InitCache, r.spec.Version, res.Type, answer)
	}
}
